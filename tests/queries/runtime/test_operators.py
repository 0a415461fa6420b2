"""Report of joins and aggregates that call predicates, from tables made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakehouse.queries.runtime.state import Declared, QueryState, explain, state_of
from lakehouse.settings import Settings
from tests.queries import joined
from tests.queries.scanned import KINDS, declare, run_by_hand, stop

SECOND_CONDITION = {"pairs": "location = 'hall'", "multiway": "temp > 1", "aggregate": "temp > 1"}
ALIAS = {"pairs": "r", "multiway": "d", "aggregate": "a"}


def opened(settings: Settings, kind: str) -> QueryState:
    return state_of(settings.layout, settings.query(KINDS[kind][0]))


def explained(settings: Settings, kind: str) -> dict[str, Any]:
    return explain(opened(settings, kind), Declared(settings.streams, settings.sites, None))


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_tells_conditions_by_side_in_their_current_order_and_the_kernel_last(
    tmp_path: Path, kind: str
) -> None:
    settings = declare(tmp_path, kind)
    run_by_hand(settings, kind)

    found = opened(settings, kind).summary()

    assert (found["kind"], found["state"], found["stopped"], found["batches"]) == (kind, "current", None, 2)
    alias, (_, called, _, kernel) = ALIAS[kind], KINDS[kind]
    assert [
        (each["side"], each["operator"], each["written"], each["now"]) for each in found["operators"]
    ] == [
        (alias, SECOND_CONDITION[kind], 2, 1),
        (alias, called, 1, 2),
        (None, kernel, None, None),
    ]
    first, _, last = found["operators"]
    assert (first["us_a_row"], first["filtered_per_s"], first["waited"]) == (1.0, 900_000.0, 500)
    # n - V: the scan of the last batch took in 5,000 rows a second.
    assert (last["handled_per_s"], last["selectivity"], last["priority"]) == (7000.0, 0.5, 2000.0)
    assert (last["taken"], last["passed"], last["slice_us"], last["waited"]) == (60, 30, None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_why_conditions_stand_as_they_do_and_when_the_kernel_runs_is_told(tmp_path: Path, kind: str) -> None:
    settings = declare(tmp_path, kind)
    run_by_hand(settings, kind)

    found = explained(settings, kind)

    alias, (_, called, _, kernel) = ALIAS[kind], KINDS[kind]
    assert found["why"] == [
        f"{alias}: most rows taken out a second first, by (1 - S) n as the last batch measured it; equal ones as "
        "written",
        f"{alias}: {SECOND_CONDITION[kind]} goes before {called}: it takes out 900,000 rows a second, that 5,000",
        f"{kernel} runs behind all scans of its round; of several such the one of the highest n - V runs first, "
        "here 7,000 - 5,000 rows a second",
    ]
    assert [(batch["batch"], [side["side"] for side in batch["sides"]]) for batch in found["last_scans"]] == [
        (1, [alias]),
        (2, [alias]),
    ]
    second = found["last_scans"][1]
    assert (second["sides"][0]["order"], second["sides"][0]["tau_us"]) == ([2, 1], 400_000)
    assert second["kernel"]["busy_us"] == 12_000
    asked = [each["asked"] for each in found["plan"]["sides"][0]["conditions"]]
    assert asked == [f"{called.partition('(')[0]}.py, row by row", "compiled, whole columns"]
    assert "conditions" not in found["plan"]["sides"][1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_query_says_where_and_why(tmp_path: Path, kind: str) -> None:
    settings = declare(tmp_path, kind)
    run_by_hand(settings, kind)
    stop(settings, kind)

    found = explained(settings, kind)

    assert (found["state"], found["batches"], sum(found["waiting"].values()) > 0) == ("stopped", 2, True)
    assert found["stopped"] == {
        **{"batch": 3, "operator": KINDS[kind][1], "error": "TypeError: no place"},
        **{"place": "within.py:2", "at": "2026-01-02T00:03:00+00:00"},
    }


def test_before_the_first_batch_there_is_nothing_to_order(tmp_path: Path) -> None:
    found = explained(declare(tmp_path, "pairs"), "pairs")

    assert (found["state"], found["operators"], found["why"], found["last_scans"]) == ("new", [], [], [])


def test_a_query_that_calls_nothing_is_told_as_ever(tmp_path: Path) -> None:
    settings = joined.declare(tmp_path)
    joined.run_by_hand(settings)

    found = explained(settings, "pairs")

    assert {"operators", "stopped", "why", "last_scans"} & found.keys() == set()

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.engine.local import LocalEngine
from lakehouse.queries.aggregate import checks
from lakehouse.queries.aggregate.tables import AggregateTables
from lakehouse.queries.runtime.checks import frames_of
from lakehouse.storage.layout import Home
from quality.rules import load_rules
from tests.queries.answered import FLOORS, TEXT, Aggregated, Alarm, Answer, Logged, declare, query_of, us

TAKEN = {1: (20, 20), 2: (20, 20)}


@pytest.fixture
def well(tmp_path: Path) -> Aggregated:
    """Two finished batches and a repair of the first; a third batch and a second repair are under way."""
    streams = declare(tmp_path / "declared").streams
    answers = [
        *(Answer(tick, holds=tick != 10) for tick in (5, 10, 15)),
        Answer(5, group=(None,), holds=False),
        Answer(20, batch=2),
        Answer(10, revision=1, batch=2),
        Answer(15, revision=1, holds=False, found="repair"),
        Answer(25, batch=3),
        Answer(20, revision=1, found="repair", batch=2),
    ]
    alarms = [
        Alarm("a", 5),
        Alarm("a", 5, 10, state="cleared", change=1),
        Alarm("b", 15),
        Alarm("a", 5, 15, state="cleared", change=2, batch=2),
        Alarm("b", 15, state="withdrawn", change=1, found="repair"),
        Alarm("c", 20, batch=2),
        Alarm("d", 25, batch=3),
    ]
    late = [Logged(1, 5), Logged(2, 9, 2), Logged(3, 9, 2, "refused"), Logged(4, 9, 3)]
    query = query_of(TEXT, streams)
    return Aggregated(query, streams, answers, alarms, late, batches=2, repairs=(1,), time=24)


def opened(folder: Path, told: Aggregated, since: int = -1) -> AggregateTables:
    found = AggregateTables.opened(LocalEngine(), told.write(Home(folder)), told.query, since, None)
    assert found is not None
    return found


def frames(found: AggregateTables) -> dict[str, Sequence[dict[str, Any]]]:
    return {frame.table: frame.rows for frame in frames_of(found, TAKEN)}


def wrong(found: AggregateTables) -> dict[tuple[str, str], float]:
    rules = load_rules()
    told: dict[tuple[str, str], float] = {}
    for table, rows in frames(found).items():
        for row in rows:
            for rule in rules[table]:
                if row[rule.metric]:
                    told[table, rule.metric] = told.get((table, rule.metric), 0) + row[rule.metric]
    return told


def test_a_query_without_a_finished_batch_has_nothing_to_judge(tmp_path: Path, well: Aggregated) -> None:
    home = replace(well, batches=0).write(Home(tmp_path))

    assert AggregateTables.opened(LocalEngine(), home, well.query, -1, None) is None
    assert AggregateTables.opened(LocalEngine(), Home(tmp_path / "nothing"), well.query, -1, None) is None


def test_right_tables_have_no_deviation_and_what_goes_on_is_not_judged(
    tmp_path: Path, well: Aggregated
) -> None:
    found = opened(tmp_path, well)

    assert wrong(found) == {}
    assert {table: len(rows) for table, rows in frames(found).items()} == {
        "batches": 2,
        "repairs": 1,
        "answers": 1,
        "alarms": 1,
    }
    assert (found.through, found.gone, found.checking.ticks.tolist()) == (
        2,
        1,
        [us(5 * i) for i in range(1, 5)],
    )


def test_rows_are_told_when_fewer_or_more_than_there_were_to_take(tmp_path: Path, well: Aggregated) -> None:
    (batches, *_) = frames_of(opened(tmp_path, well), {1: (22, 25), 2: (1, 17)})

    first, second = batches.rows
    assert (first["rows_missing"], first["rows_added"]) == (2, 0)
    assert (second["rows_missing"], second["rows_added"]) == (0, 3)


def with_tables_of(folder: Path, told: Aggregated, other: Aggregated, *tables: str) -> AggregateTables:
    """Return a query of which these tables are those of another, so that its figures do not speak of them."""
    home, theirs = told.write(Home(folder / "ours")), other.write(Home(folder / "theirs"))
    for table in tables:
        name = Path(table) / told.query.name / "part-0.parquet"
        (theirs.root / name).rename(home.root / name)
    found = AggregateTables.opened(LocalEngine(), home, told.query, -1, None)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("table", "more", "told"),
    [
        (
            "answers",
            Answer(1000, batch=2, holds=False),
            {("batches", "found_gap"): 1, ("answers", "too_early"): 1, ("alarms", "uncovered"): 1},
        ),
        (
            "answers",
            Answer(7, found="repair", holds=False),
            {("repairs", "found_gap"): 1, ("answers", "between_ticks"): 1, ("alarms", "uncovered"): 1},
        ),
        ("missed_rows", Logged(9, 9), {("batches", "log_gap"): 1, ("repairs", "looked_gap"): 1}),
        ("missed_rows", Logged(9, 9, 2, "refused"), {("batches", "log_gap"): 1}),
    ],
)
def test_what_the_figures_do_not_speak_of_is_told(
    tmp_path: Path, well: Aggregated, table: str, more: Any, told: dict[tuple[str, str], float]
) -> None:
    # An alarm stands at both ticks, so that an answer which does not hold there is one too few.
    changed: dict[str, Any] = {table: [*getattr(well, table), more]}

    assert wrong(with_tables_of(tmp_path, well, replace(well, **changed), table)) == told


@pytest.mark.parametrize(
    "revisions",
    [(1,), (0, 2), (0, 0), (0, 1, 1), (0, 0, 3, 3)],
)
def test_a_revision_lost_or_twice_is_told(
    tmp_path: Path, well: Aggregated, revisions: tuple[int, ...]
) -> None:
    odd = [Answer(5, group=("attic",), holds=False, revision=revision) for revision in revisions]
    found = opened(tmp_path, replace(well, answers=[*well.answers, *odd]))

    assert wrong(found) == {("answers", "revision_gaps"): 1}


@pytest.mark.parametrize(
    ("alarms", "told"),
    [
        (
            [Alarm("z", 15, 20, group=("attic",), state="cleared")],
            {"misplaced": 1, "uncovered": 1, "change_gaps": 0},
        ),
        (
            [Alarm("z", 15, group=("attic",), change=1, state="withdrawn")],
            {"misplaced": 0, "uncovered": 0, "change_gaps": 1},
        ),
        (
            [Alarm("z", 5, 10, group=(None,), state="cleared")],
            {"misplaced": 1, "uncovered": 1, "change_gaps": 0},
        ),
        (
            [Alarm("a", 5, 10, state="cleared", change=3, batch=2)],
            {"misplaced": 1, "uncovered": 1, "change_gaps": 0},
        ),
        ([Alarm("c", 20, 25, state="cleared", change=1)], {"misplaced": 0, "uncovered": 0, "change_gaps": 0}),
    ],
)
def test_alarms_that_differ_from_the_answers_are_told(
    tmp_path: Path, well: Aggregated, alarms: list[Alarm], told: dict[str, int]
) -> None:
    found = opened(tmp_path, replace(well, alarms=[*well.alarms, *alarms]))

    assert frames(found)["alarms"] == [told]


def test_groups_in_many_places_are_judged_as_in_one(
    tmp_path: Path, well: Aggregated, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = [Answer(10, group=(f"room {n}",), revision=n % 3, holds=n % 2 > 0) for n in range(40)]
    alarms = [Alarm(f"o{n}", 10, group=(f"room {n}",), change=n % 5 // 4) for n in range(30)]
    told = replace(well, answers=[*well.answers, *odd], alarms=[*well.alarms, *alarms])
    one = frames(opened(tmp_path / "one", told))
    monkeypatch.setattr(checks, "ROWS_A_PLACE", 7)

    assert frames(opened(tmp_path / "many", told)) == one
    # Of ticks 10, 15 and 20 the last two have the alarms that still stand, and no answers.
    assert one["answers"][0]["revision_gaps"] == 26
    assert one["alarms"] == [{"change_gaps": 6, "misplaced": 15, "uncovered": 70}]


def test_without_any_alarm_every_answer_that_holds_is_uncovered(tmp_path: Path, well: Aggregated) -> None:
    found = opened(tmp_path, replace(well, alarms=[]))

    assert frames(found)["alarms"] == [{"change_gaps": 0, "misplaced": 0, "uncovered": 3}]


def test_only_ticks_answered_since_the_last_good_check_are_judged(tmp_path: Path, well: Aggregated) -> None:
    odd = Answer(5, group=("attic",), revision=7, holds=False)
    told = replace(well, answers=[*well.answers, odd], repairs=(1, 1))

    late, all_of_it = (opened(tmp_path / str(since), told, since) for since in (2, -1))

    # The repairs came before the check: they are of earlier batches than it had seen.
    assert (late.checking.ticks.tolist(), wrong(late)) == ([], {})
    assert ("answers", "revision_gaps") in wrong(all_of_it)
    # Batch 2 answered ticks 10 and 20 anew, and a repair of batch 1 may have come after a check that had seen it.
    assert opened(tmp_path / "one", told, 1).checking.ticks.tolist() == [us(10), us(15), us(20)]


def test_a_query_without_alarms_or_with_two_groups_is_judged_alike(tmp_path: Path, well: Aggregated) -> None:
    query = query_of(FLOORS, well.streams)
    answers = [Answer(5, group=group) for group in (("hall", 1), ("hall", None), (None, 1), (None, None))]
    told = Aggregated(query, well.streams, answers, batches=2)

    assert wrong(opened(tmp_path / "well", told)) == {}
    assert set(frames(opened(tmp_path / "well", told))) == {"batches", "answers"}
    twice = replace(told, answers=[*answers, answers[3]])
    assert wrong(opened(tmp_path / "twice", twice)) == {("answers", "revision_gaps"): 1}

"""Report of selections, from tables made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from jobs.publishing.snapshots import queries_to_publish
from lakehouse.queries.runtime.state import Declared, explain, overview, state_of
from lakehouse.serving.publish.build import write_tables
from lakehouse.settings import Settings
from tests.queries.chosen import SECOND, START_US, declare, query_of, run_by_hand, stop


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    declared = declare(tmp_path)
    run_by_hand(declared)
    return declared


def explained(settings: Settings) -> dict[str, Any]:
    state = state_of(settings.layout, query_of(settings))
    return explain(state, Declared(settings.streams, settings.sites, None))


def test_a_line_tells_what_was_selected_and_the_operators_in_their_current_order(settings: Settings) -> None:
    hot, new = overview(settings.layout, settings.registered)["queries"]

    assert (hot["kind"], hot["state"], hot["batches"], hot["rows"], hot["selected"]) == (
        *("selection", "current", 2, 2000, 100),
    )
    assert (hot["from_clause"], hot["deadline_us"], hot["misses"], hot["worst_delay_us"]) == (
        "doors d",
        600_000,
        1,
        700_000,
    )
    assert hot["condition"] == "in_hall(place) and temp > 40 and place <> 'x'"
    assert hot["newest_us"] == START_US + 200 * SECOND
    assert [(each["operator"], each["written"], each["now"]) for each in hot["operators"]] == [
        ("temp > 40", 2, 1),
        ("in_hall(place)", 1, 2),
        ("place <> 'x'", 3, 3),
    ]
    first = hot["operators"][0]
    assert (first["us_a_row"], first["selectivity"], first["filtered_per_s"]) == (1.0, 0.1, 900_000.0)
    assert (first["slice_us"], first["waited"], first["priority"]) == (700, 500, 900_000.0)
    assert (new["state"], new["operators"], new["stopped"]) == ("new", [], None)


def test_why_the_order_is_what_it_is_and_what_it_was_is_told(settings: Settings) -> None:
    found = explained(settings)

    assert found["why"] == [
        "most rows taken out a second first, by (1 - S) n as the last batch measured it; equal ones as written",
        "temp > 40 goes before in_hall(place): it takes out 900,000 rows a second, that 5,000",
    ]
    assert [(batch["order"], batch["tau_us"], batch["misses"]) for batch in found["last_batches"]] == [
        ([1, 2, 3], 200_000, 1),
        ([2, 1, 3], 400_000, 0),
    ]
    assert found["last_batches"][0]["operators"][0] == {
        **{"operator": "in_hall(place)", "taken": 1000, "passed": 100, "busy_us": 20_000},
        **{"selectivity": 0.1, "handled_per_s": 50_000.0},
    }
    assert [each["asked"] for each in found["plan"]["conditions"]] == [
        *("in_hall.py, row by row", "compiled, whole columns", "compiled, whole columns"),
    ]


def test_a_stopped_query_says_where_and_why(settings: Settings) -> None:
    stop(settings)

    found = explained(settings)

    assert (found["state"], found["waiting"], found["batches"]) == ("stopped", {"doors": 1}, 2)
    assert found["stopped"] == {
        **{"batch": 3, "operator": "in_hall(place)", "error": "TypeError: no place"},
        **{"place": "in_hall.py:2", "at": "2026-01-02T00:03:00+00:00"},
    }


def test_rows_of_finished_batches_are_published(settings: Settings) -> None:
    told, changed = queries_to_publish(settings.layout, settings.registered, settings.streams, 150 * SECOND)
    with duckdb.connect() as connection:
        write_tables(connection, 1, [], told)
        rows = connection.execute(
            "SELECT batch, count(*), min(event_us) FROM selection_hot GROUP BY ALL ORDER BY ALL"
        )
        found = rows.fetchall()
        query = connection.execute(
            'SELECT kind, rows, rows_found, published, "open", missed, final_before_us FROM queries'
        ).fetchone()

    assert changed == []
    # The newest row is of second 200; rows of a third batch are of one that is not finished.
    assert found == [(2, 50, START_US + 50 * SECOND)]
    assert query == ("selection", 2000, 100, 50, 0, 0, START_US + 180 * SECOND)

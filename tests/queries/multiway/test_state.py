"""Report of a join of three streams, from tables made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from jobs.publishing.snapshots import queries_to_publish
from lakehouse.queries.runtime.state import Declared, explain, overview, state_of
from lakehouse.serving.publish.build import write_tables
from lakehouse.settings import Settings
from tests.queries.moved import START_US, TEXT, declare, query_of, run_by_hand

SECOND = 1_000_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    declared = declare(tmp_path)
    run_by_hand(declared)
    return declared


def explained(settings: Settings) -> dict[str, Any]:
    state = state_of(settings.layout, query_of(settings))
    return explain(state, Declared(settings.streams, settings.sites, None))


def test_a_line_tells_what_was_found_and_moved(settings: Settings) -> None:
    (line,) = overview(settings.layout, settings.registered)["queries"]

    assert (line["kind"], line["state"], line["batches"], line["rows"]) == ("multiway", "current", 2, 280)
    assert (line["results_online"], line["results_repaired"], line["open"]) == (75, 25, 4)
    assert (line["left"], line["moved_bytes"], line["held"], line["state_bytes"]) == (50, 6500, 260, 6000)
    assert line["from_clause"] == "doors [10s] d join badges [1m] b join cameras [30s] c"
    assert line["condition"] == "d.place = b.place = c.place"


def test_every_batch_is_told_with_rows_pruned_order_and_both_costs(settings: Settings) -> None:
    found = explained(settings)

    assert found["text"] == TEXT and len(found["last_batches"]) == 2
    first, last = found["last_batches"]
    assert [side["pruned"] for side in first["sides"]] == [97, 50, 60]
    assert [side["order"] for side in first["sides"]] == [[], [], ["d", "b"]]
    assert (last["results"], last["shuffled"], last["collected"]) == (5, 1000, 600)
    assert (last["joined"], last["why"]) == ("pruned", "2 s pruned, 9 s plain")
    door = last["sides"][0]
    assert (door["order"], door["planned"], door["moved"]) == (["c", "b"], [30, 30, 45], [30, 10, 5])
    assert (door["planned_cost"], door["real_cost"], door["missed"], door["pruned"]) == (150.0, 70.0, 3, 10)


def test_sides_add_up_and_what_is_missing_is_known(settings: Settings) -> None:
    found = explained(settings)

    doors = found["sides"][0]
    assert (doors["rows"], doors["refused"], doors["unusable"], doors["left"], doors["held"]) == (
        140,
        1,
        2,
        30,
        120,
    )
    assert found["completeness"] == {"online": 75, "repaired": 25, "recall": 0.75}
    assert found["to_repair"]["rows"] == 4
    assert found["to_repair"]["oldest_us"] == START_US + 150 * SECOND


def test_ways_and_sites_are_those_declared(settings: Settings) -> None:
    plan = explained(settings)["plan"]

    assert plan["transfer"] == ((0, 4, 4), (4, 0, 0), (4, 0, 0))
    assert plan["ways"] == "d to b 4, d to c 4, b to d 4, b to c 0, c to d 4, c to b 0"
    assert [side["site"] for side in plan["sides"]] == ["north", "south", "south"]


def test_finished_results_are_published_with_what_is_final(settings: Settings) -> None:
    told, changed = queries_to_publish(settings.layout, settings.registered, settings.streams, None)
    with duckdb.connect() as connection:
        write_tables(connection, 1, [], told)
        rows = connection.execute(
            "SELECT found, batch, count(*), any_value(place), max(len(times_us)) "
            "FROM multiway_passing GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        query = connection.execute(
            'SELECT kind, rows_found, repaired, published, "open", slack_us, final_before_us FROM queries'
        ).fetchone()

    assert changed == []
    assert rows == [("online", 1, 70, "hall", 3), ("online", 2, 5, "hall", 3), ("repair", 1, 25, "hall", 3)]
    # Streams have passed 200 s and are said to be late by 20 at most; a row of 150 s waits for the repair.
    assert query == ("multiway", 75, 25, 100, 4, 5 * SECOND, START_US + 150 * SECOND)


def test_only_what_is_new_enough_is_published(settings: Settings) -> None:
    told, _ = queries_to_publish(settings.layout, settings.registered, settings.streams, 126 * SECOND)
    with duckdb.connect() as connection:
        write_tables(connection, 1, [], told)
        found = connection.execute("SELECT min(event_us), count(*) FROM multiway_passing").fetchone()

    # The newest time is of second 201.
    assert found == (START_US + 75 * SECOND, 25)

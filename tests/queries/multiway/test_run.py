"""Joins of three streams or more over raw tables: online and repaired results are all results, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import build_rollups, maintain, maintain_queries
from lakehouse.queries.runtime.repair import drain_repairs
from lakehouse.settings import Settings
from lakehouse.storage.tables.table_log import read_rows
from tests.queries.multiway.streams import FOUR, NAMES, THREE, Streams, some_rows, streams_of
from tests.support.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def streams(spark: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path) -> Streams:
    return streams_of(spark, lakehouse_of, tmp_path, {"three": THREE, "four": FOUR, "five": THREE})


def moves(streams: Streams, query: str) -> list[dict[str, Any]]:
    """Return what became of each side's rows, batch by batch."""
    rows = [row for row in read_rows(streams.settings.layout.queries(query)) if row["side"] >= 0]
    return sorted(rows, key=lambda row: (row["batch"], row["side"]))


def test_online_and_repaired_results_are_all_results_each_once_whatever_sending_costs(
    streams: Streams,
) -> None:
    sent, brought = streams.run("three"), streams.run("four")
    costs = {"north": {"east": 1, "south": 99}, "east": {"south": 5}}
    dearer = Streams(streams.spark, streams.settings.model_copy(update={"sites": costs}))
    # Parts come out of order, and each part's streams too.
    streams.land(some_rows(1, 1, 40))
    sent.drain()
    streams.land(some_rows(1, 0, 40))
    assert dearer.run("three").drain()["batches"] == 1
    first = brought.drain()

    assert first["batches"] == 1 and first["refused"] > 0 and first["unusable"] > 0
    for run in (sent, brought):
        expected = Counter(tuple(times) for (times,) in streams.expected(run.query))
        assert not streams.results(run.query.name) - expected
        drain_repairs(run)
        assert streams.results(run.query.name) == expected
        assert len(expected) > 50
    assert streams.results("three", "repair") and streams.results("three", "online")


def test_batches_that_are_joined_either_way_in_turns_come_to_the_same_results(streams: Streams) -> None:
    ways, plain = ("plain", "pruned", "plain", "plain", "pruned"), streams.run("four", joins="plain")
    declared = streams.settings.streams["doors"].model_copy(update={"keep_raw": 10**15})
    forgetful = Streams(
        streams.spark,
        streams.settings.model_copy(update={"streams": streams.settings.streams | {"doors": declared}}),
    )
    kept = {number: way for number, way in enumerate(ways, 1)}
    for part, way in zip((1, 0, 2, 3, 4), ways, strict=True):
        streams.land(some_rows(5, part, 30))
        forgetful.run("five", joins=way).drain()
        streams.run("three", joins=way).drain()
        plain.drain()
    for run in (streams.run("three"), forgetful.run("five"), plain):
        rows = read_rows(streams.settings.layout.queries(run.query.name))
        told = {row["batch"]: row["joined"] for row in rows if row["side"] < 0}
        assert told == (dict.fromkeys(kept, "plain") if run is plain else kept)
        drain_repairs(run)
        expected = Counter(tuple(times) for (times,) in streams.expected(run.query))
        assert streams.results(run.query.name) == expected
        assert len(expected) > 50 and streams.results(run.query.name, "online")
    # Late, refused and unusable rows are the same, whichever way.
    taken = [
        [(row["batch"], row["rows"], row["missed"], row["unusable"]) for row in moves(streams, name)]
        for name in ("three", "five")
    ]
    assert taken[0] == taken[1]


def test_results_show_the_columns_asked_for_and_the_time_of_their_newest_row(streams: Streams) -> None:
    streams.land(some_rows(2, 0, 60))
    run = streams.run("three")
    run.drain()

    shown = [output.name for output in run.query.outputs]
    table = streams.settings.layout.multiway("three")
    found = table_rows(table, "event_us", *shown, "found", "batch")
    ids = [tuple(row_ids) for (row_ids,) in table_rows(table, "row_ids")]
    expected = streams.expected(run.query, f"list_max(times_us), {', '.join(shown)}, 'online', 1")
    assert len(expected) > 10
    assert Counter(found) == Counter(expected)
    assert len(set(ids)) == len(ids)


def test_rows_that_nothing_can_join_stay_at_home_and_no_more_are_moved_than_planned(streams: Streams) -> None:
    few = {name: rows[:3] for name, rows in some_rows(3, 0, 30).items()}
    streams.land({"doors": few["doors"], "badges": few["badges"]})
    run = streams.run("three", slots=2**20)
    assert run.drain()["batches"] == 0
    streams.land({"alerts": []})
    first = run.drain()
    streams.land({"alerts": [row | {"value": 1.0} for row in few["alerts"]]})
    run.drain()
    # Of a room that no door has.
    streams.land({"alerts": [{**few["alerts"][0], "room": "none", "floor": 1, "value": 1.0}]})
    last = run.drain()

    assert first["rows"] == 6 and first["results"] == 0
    assert [row["visits"] for row in moves(streams, "three") if row["batch"] == 1] == [[], [], []]
    assert last["results"] == 0 and moves(streams, "three")[-1]["moved"] == [0]
    for row in moves(streams, "three"):
        assert len(row["moved"]) == len(row["planned"]) == (3 if row["visits"] else 1)
        assert all(real <= most for real, most in zip(row["moved"], row["planned"], strict=True))
        assert row["real_cost"] <= row["planned_cost"]


def test_maintaining_drops_what_no_row_can_meet_any_more_and_changes_no_result(streams: Streams) -> None:
    run = streams.run("three")
    for part in (0, 1):
        streams.land(some_rows(7, part, 40))
        run.drain()
        for name in NAMES:
            build_rollups.run(streams.settings, streams.spark, name)
    declared = streams.settings.streams["doors"].model_copy(update={"keep_raw": 1})
    kept = streams.settings.model_copy(update={"streams": streams.settings.streams | {"doors": declared}})
    only = kept.model_copy(update={"registered": {"three": run.query}})
    windows = streams.settings.layout.windows("three")
    held = len(table_rows(windows))

    waits = maintain.run(only, streams.spark, "doors")
    maintain_queries.run(only, streams.spark, "three")
    left = len(table_rows(windows))
    streams.land(some_rows(7, 2, 40))
    run.drain()
    drain_repairs(run)

    assert waits["waits_for_queries"] == 1 and waits["raw_dropped"] == 0
    assert 0 < left < held
    assert streams.results("three") == Counter(tuple(times) for (times,) in streams.expected(run.query))

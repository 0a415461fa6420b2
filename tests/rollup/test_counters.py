"""Counters through ingest and rollups: nodes as the pure tree has them, whatever comes late."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from jobs import build_rollups, maintain
from lakehouse.ingest import raw_rows
from lakehouse.rollup import rollup
from lakehouse.settings import Settings
from tests.oracles.rollup.counter import CounterTree
from tests.support.folded import folded, rows_of
from tests.support.readings import declared
from tests.support.readings_lake import Lake

pytestmark = pytest.mark.spark
T0 = 1_600_000_000
METERS = ("a", "b", None)
PARTS = ("n", "first_us", "last_us", "first", "last", "drops_low", "drops_high")
Reading = dict[str, Any]


@pytest.fixture
def meters(spark: SparkSession, lakehouse_of: Callable[[str], Settings]) -> Lake:
    text = declared().replace(
        'measures = ["temp", "count"]', 'measures = ["temp", "count"]\ncounters = ["count"]'
    )
    return Lake(spark, lakehouse_of(text.replace('count = "int"', 'count = { type = "int" }')))


def random_meters(seed: int, count: int) -> list[Reading]:
    """Readings of three meters in order of time, which restart now and then, and miss or send nonsense at times."""
    random = np.random.default_rng(seed)
    seconds = np.sort(random.choice(20 * 60 * 10, count, replace=False)) / 10
    level = dict.fromkeys(METERS, 100)
    made = []
    for second in seconds:
        meter = METERS[random.integers(3)]
        level[meter] = 0 if random.random() < 0.05 else level[meter] + int(random.integers(0, 50))
        value = (None, -5)[random.integers(2)] if random.random() < 0.1 else level[meter]
        made.append({"ts": T0 + float(second), "device": meter, "temp": 1.5, "count": value})
    return made


def ingest(lake: Lake, name: str, readings: list[Reading]) -> None:
    lake.land(name, "".join(json.dumps(r, default=int) + "\n" for r in readings))
    lake.ingest()
    build_rollups.run(lake.settings, lake.spark, lake.stream)


def nodes(lake: Lake) -> dict[tuple[int, str | None, int], tuple[Any, ...]]:
    found = folded(lake.settings, lake.stream)
    counted = found.filter((pc.field("grouping") == 0) & (pc.field("count__n") > 0))
    parts = ("level", "device", "start_us", *(f"count__{part}" for part in PARTS))
    # Rows of Any: the columns are of several types.
    rows: list[tuple[Any, ...]] = list(rows_of(counted, *parts))
    return {row[:3]: row[3:] for row in rows}


@dataclass(frozen=True)
class True_:
    """What a node's readings really are."""

    first: float
    last: float
    drops: float


def truth(lake: Lake, readings: list[Reading], place: tuple[int, str | None, int]) -> True_:
    level, meter, start = place
    width = lake.settings.streams[lake.stream].levels[level - 1].width_us
    found = sorted(
        (round(r["ts"] * 10**6), r["count"])
        for r in readings
        if r["device"] == meter and r["count"] is not None and r["count"] >= 0
    )
    inside = [value for time, value in found if start <= time < start + width]
    return True_(inside[0], inside[-1], sum(a for a, b in pairwise(inside) if b < a))


def test_in_order_of_time_nodes_are_those_of_the_pure_tree(
    meters: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = random_meters(1, 400)
    for part in range(3):
        # Meters of one batch are folded in buckets of a few rows, those of the others at once.
        monkeypatch.setattr(raw_rows, "ROWS_A_TASK", 10 if part == 1 else 1000)
        ingest(meters, f"{part}.ndjson", readings[part * 140 : (part + 1) * 140])

    found = nodes(meters)
    # Some times after the others: never a node before those that it is joined from.
    monkeypatch.setattr(rollup, "VALUES_AT_ONCE", 1000)
    assert nodes(meters) == found

    levels = meters.settings.streams["readings"].levels
    expected = {}
    for meter in METERS:
        tree = CounterTree(levels)
        own = [r for r in readings if r["device"] == meter]
        for reading in [r for r in own if r["count"] is not None]:
            tree.insert_batch([round(reading["ts"] * 10**6)], [reading["count"]])
        tree.insert_batch([max(round(r["ts"] * 10**6) for r in readings)], [float("nan")])
        for number in range(len(levels)):
            for node in tree.nodes(number):
                expected[(number + 1, meter, int(node["start"]))] = tuple(node[name].item() for name in PARTS)
    assert found == expected


def test_late_rows_leave_an_interval_that_a_rebuild_closes(meters: Lake) -> None:
    readings = random_meters(2, 300)
    late = np.random.default_rng(3).random(300) < 0.3
    ingest(meters, "0.ndjson", [r for r, is_late in zip(readings, late, strict=True) if not is_late])
    ingest(meters, "1.ndjson", [r for r, is_late in zip(readings, late, strict=True) if is_late])

    open_nodes = 0
    before = nodes(meters)
    for place, (_, _, _, first, last, low, high) in before.items():
        really = truth(meters, readings, place)
        assert (first, last) == (really.first, really.last)
        assert low <= really.drops <= high
        open_nodes += low < high
    assert open_nodes
    maintain.run(meters.settings, meters.spark, "readings")
    assert nodes(meters) == before

    build_rollups.rebuild(meters.settings, meters.spark, "readings")

    for place, (_, _, _, first, last, low, high) in nodes(meters).items():
        assert True_(first, last, low) == truth(meters, readings, place) and low == high


@pytest.mark.parametrize("rows_a_task", [10, 1000])
@pytest.mark.parametrize("engine", ["spark", "on_spark"])
def test_files_that_overlap_in_time_and_are_built_at_once_leave_no_interval(
    meters: Lake,
    monkeypatch: pytest.MonkeyPatch,
    rows_a_task: int,
    engine: str,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setattr(raw_rows, "ROWS_A_TASK", rows_a_task)
    readings = random_meters(2, 300)
    late = np.random.default_rng(3).random(300) < 0.3
    for number, is_in in enumerate((~late, late)):
        own = [reading for reading, its in zip(readings, is_in, strict=True) if its]
        meters.land(f"{number}.ndjson", "".join(json.dumps(r, default=int) + "\n" for r in own))
        meters.ingest()

    session = request.getfixturevalue(engine)
    build_rollups.run(meters.settings, session, meters.stream)

    for place, (_, _, _, first, last, low, high) in nodes(meters).items():
        assert True_(first, last, low) == truth(meters, readings, place) and low == high


def test_what_is_no_reading_is_counted_as_missing(meters: Lake) -> None:
    readings = [
        {"ts": T0 + i, "device": "a", "temp": 1.0, "count": v} for i, v in enumerate([5, -1, None, 9])
    ]

    ingest(meters, "0.ndjson", readings)

    missing = dict(meters.rows("ledger", "missing")[0][0])
    assert (missing["temp"], missing["count"]) == (0, 2)
    top = [node for (level, _, _), node in nodes(meters).items() if level == 3]
    assert top == [(2, T0 * 10**6, (T0 + 3) * 10**6, 5.0, 9.0, 0.0, 0.0)]

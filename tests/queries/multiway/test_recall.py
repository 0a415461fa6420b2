"""Joins of three streams with a recall: enough at once, all after the repair, whatever the order and the batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs import maintain_queries
from jobs.publishing.snapshots import queries_to_publish
from lakehouse.cli.queries.multiway import TEXT
from lakehouse.queries.runtime.repair import drain_repairs
from lakehouse.queries.runtime.state import Declared, explain, state_of
from lakehouse.serving.publish.query_snapshot import write_alone
from lakehouse.settings import Settings
from lakehouse.storage.tables.table_log import read_rows
from sql import statement
from tests.queries.multiway.streams import NAMES, THREE, Row, Streams, some_rows, streams_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
ASKED = THREE.replace("SLACK 2 SECONDS", "RECALL {} OVER 20 SECONDS SPARE 0 ROWS")
STEP_MS = 10_000


@pytest.fixture
def streams(spark: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path) -> Streams:
    queries = {"most": ASKED.format(0.9), "pruned": ASKED.format(0.9), "half": ASKED.format(0.5)}
    return streams_of(
        spark, lakehouse_of, tmp_path, {**queries, "none": THREE.replace("2 SECONDS", "0 SECONDS")}
    )


def as_they_come(seed: int, parts: int = 5) -> list[dict[str, list[Row]]]:
    """Return the rows of some parts in the order of arrival, a group for each stretch of time."""
    found: dict[int, dict[str, list[Row]]] = {}
    for part in range(parts):
        for name, rows in some_rows(seed, part, 45, rooms=3).items():
            for row in rows:
                at = found.setdefault(row["received"] // STEP_MS, {each: [] for each in NAMES})
                at[name].append(row)
    return [rows for at, rows in sorted(found.items()) if at < min(found) + 3 * parts]


def test_the_recall_is_reached_at_once_and_the_repair_finds_the_rest_each_once(streams: Streams) -> None:
    runs = {name: streams.run(name, joins="plain") for name in ("most", "half", "none")}
    runs["pruned"] = streams.run("pruned")
    groups = as_they_come(3)
    for number, rows in enumerate(groups):
        streams.land(rows)
        for run in runs.values():
            run.drain()
        if number in (4, 8):
            drain_repairs(runs["most"])
            drain_repairs(runs["pruned"])
            # Rows that have left their windows are deleted, whatever slack comes after.
            maintain_queries.run(streams.settings, streams.spark, "pruned")
    expected = Counter(tuple(times) for (times,) in streams.expected(runs["most"].query))
    online = {name: streams.results(name, "online") for name in runs}
    reached = {name: found.total() / expected.total() for name, found in online.items()}
    assert expected.total() > 300
    assert reached["most"] >= 0.9 > reached["none"] and reached["half"] < reached["most"]
    # Which way batches are joined makes no difference, to slack neither.
    assert online["pruned"] == online["most"]
    slacks = {name: slack_by_batch(streams, name) for name in runs}
    assert slacks["pruned"] == slacks["most"] and max(slacks["most"].values()) > 0
    for name, run in runs.items():
        drain_repairs(run)
        assert streams.results(name) == expected

    told = completeness(streams, "most")
    state = state_of(streams.settings.layout, runs["most"].query)
    found = explain(state, Declared(streams.settings.streams, {}, None))
    assert found["completeness"]["recall"] == pytest.approx(reached["most"])
    assert [row[:3] for row in told] == [
        (start, pairs, count)
        for start, pairs, count in zip(*periods(expected, online["most"], told[0][0], len(told)), strict=True)
    ]
    assert all(asked == 0.9 and not waiting for *_, asked, waiting in told)
    assert dict(TEXT.plan(found))["target"].startswith("recall 0.9 over any 20s, aimed at 0.975")
    assert "periods: " in next(iter(TEXT.results(found)))


def test_rows_in_any_order_and_any_batches_come_to_the_same(streams: Streams) -> None:
    groups, dice = as_they_come(4, parts=3), np.random.default_rng(1)
    run = streams.run("most", joins="plain")
    for place in dice.permutation(len(groups)).tolist():
        streams.land(groups[place])
        if dice.random() < 0.7:
            run.drain()
    run.drain()
    before = streams.results("most", "online")
    drain_repairs(run)

    expected = Counter(tuple(times) for (times,) in streams.expected(run.query))
    assert streams.results("most") == expected and expected.total() > 100
    assert not before - expected


def slack_by_batch(streams: Streams, query: str) -> dict[tuple[int, int], int]:
    rows = read_rows(streams.settings.layout.queries(query))
    return {(row["batch"], row["side"]): row["slack_us"] for row in rows if row["side"] >= 0}


def completeness(streams: Streams, query: str) -> list[tuple[int, int, int, float, int]]:
    import duckdb

    settings = streams.settings
    snapshots, _ = queries_to_publish(settings.layout, settings.registered, settings.streams, None)
    with duckdb.connect() as connection:
        connection.execute(statement("serving/queries"))
        write_alone(connection, [each for each in snapshots if each.name == query])
        connection.execute(statement("serving/completeness"))
        return connection.execute(
            f"SELECT start_us, pairs, online, asked, open FROM completeness_of('{query}')"
        ).fetchall()


def periods(
    whole: Counter[tuple[int, ...]], online: Counter[tuple[int, ...]], first_us: int, count: int
) -> tuple[list[int], list[int], list[int]]:
    """Return the start of each period, and how many results of both lie in it."""
    starts = [first_us + number * 1_000_000 for number in range(count)]
    ends = [start + 20_000_000 for start in starts]
    counts = (
        [
            sum(n for times, n in found.items() if start <= max(times) < end)
            for start, end in zip(starts, ends, strict=True)
        ]
        for found in (whole, online)
    )
    pairs, at_once = counts
    return starts, pairs, at_once

"""Aggregates with a recall: ticks wait as long as enough of their answers need, and the repair makes all exact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from jobs.publishing.snapshots import queries_to_publish
from lakehouse.cli.queries.aggregate import TEXT
from lakehouse.queries.aggregate.state import AggregateState, batches
from lakehouse.queries.aggregate.tables import AggregateTables
from lakehouse.queries.runtime.repair import drain_repairs
from lakehouse.queries.runtime.state import Declared, explain, state_of
from lakehouse.serving.publish.query_snapshot import write_alone
from lakehouse.settings import Settings
from lakehouse.storage.tables.table_log import read_columns, read_rows
from sql import statement
from tests.queries.aggregate.test_run import (
    FIRES,
    NAMES,
    SCHEMA,
    STREAM,
    T0,
    TOTALS,
    Row,
    Streams,
    parts_of,
    same,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
RECALL, PERIOD_US, STEP_MS = 0.7, 10_000_000, 3_000
# The answers of fires, whatever HAVING says, and the last batch that has a row of each.
ANSWERS = """
SELECT tick, h.place, s.kind, max(greatest(h.batch, s.batch)) AS last FROM ticks, heat h, smoke s
WHERE tick - h.ts BETWEEN 0 AND 6000 AND tick - s.ts BETWEEN 0 AND 6000 AND h.place = s.place
GROUP BY tick, h.place, s.kind
"""


@pytest.fixture
def streams(session: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path) -> Streams:
    folder = tmp_path / "queries"
    folder.mkdir()
    texts = {
        "fires": FIRES.replace("SLACK 2 SECONDS", f"RECALL {RECALL} OVER 10 SECONDS"),
        "fires_none": FIRES.replace("SLACK 2 SECONDS", ""),
        "totals": TOTALS.replace("SLACK 3 SECONDS", "SLACK 3 SECONDS RECALL 0.8 OVER 20 SECONDS"),
    }
    for name, text in texts.items():
        (folder / f"{name}.sql").write_text(text)
    text = 'home = "var"\n' + "".join(STREAM.format(name=name) for name in NAMES)
    return Streams(session, lakehouse_of(text))


def as_they_come(seed: int, count: int) -> list[dict[str, list[Row]]]:
    """Return rows in the order of arrival, a group for each stretch of time; the latest ones are together."""
    (rows,) = parts_of(seed, count, 1)
    found: dict[int, dict[str, list[Row]]] = {}
    for name, own in rows.items():
        for row in own:
            at = found.setdefault(min((row["received"] - T0) // STEP_MS, 20), {each: [] for each in NAMES})
            at[name].append(row)
    return [rows for _, rows in sorted(found.items())]


def test_the_recall_is_reached_at_once_and_the_repair_makes_answers_exact(streams: Streams) -> None:
    runs = {name: streams.run(name, 2) for name in ("fires", "fires_none")}
    groups = as_they_come(3, 300)
    for number, rows in enumerate(groups):
        streams.land(f"{number:03d}.ndjson", rows)
        for run in runs.values():
            run.drain()
        if number % 5 == 4:
            drain_repairs(runs["fires"])
    for name, run in runs.items():
        drain_repairs(run)
        assert same(streams.answers(name), streams.expected(name)), name
    reached = {name: complete(streams, name, groups) for name in runs}
    shares = {name: sum(each.values()) / len(each) for name, each in reached.items()}
    assert shares["fires"] > shares["fires_none"] and len(reached["fires"]) > 200
    # The policy has learned after the first half.
    late = [is_complete for (tick, *_), is_complete in reached["fires"].items() if tick > T0 + 30_000]
    assert sum(late) >= RECALL * len(late)

    state = state_of(streams.settings.layout, runs["fires"].query)
    found = explain(state, Declared(streams.settings.streams, {}, None))
    whole = found["completeness"]
    assert (whole["online"], whole["repaired"]) == (sum(reached["fires"].values()), len(late_of(reached)))
    assert isinstance(state, AggregateState)
    slacks = [batch["slack_us"] for batch in batches(state)]
    assert slacks[0] == 0 < max(slacks) and found["recall"] == RECALL
    assert dict(TEXT.plan(found))["target"].startswith("recall 0.7 over any 10s, aimed at")
    assert next(iter(TEXT.results(found))).startswith("periods: ")
    told = completeness(streams, "fires")
    assert [row[:3] for row in told] == periods(reached["fires"], told[0][0], len(told))
    assert all(asked == RECALL and not waiting for *_, asked, waiting in told)
    judged = AggregateTables.opened(
        runs["fires"].engine, streams.settings.layout, runs["fires"].query, 0, None
    )
    assert judged is not None
    steps = judged.by_step()
    assert (sum(steps["whole"].to_pylist()), sum(steps["online"].to_pylist())) == (
        len(reached["fires"]),
        sum(reached["fires"].values()),
    )
    assert {frame.table for frame in judged.own_frames()} == {"periods", "answers", "alarms"}
    moved = read_rows(streams.settings.layout.needed_slack("fires"))
    assert {row["pairs"] for row in moved} >= {1, -1}


def test_rows_in_any_order_and_any_batches_come_to_the_same(streams: Streams) -> None:
    groups, dice = as_they_come(4, 120), np.random.default_rng(1)
    run = streams.run("totals", 3)
    for number, place in enumerate(dice.permutation(len(groups)).tolist()):
        streams.land(f"{number:03d}.ndjson", groups[place])
        if dice.random() < 0.5:
            run.drain()
        if number == 8:
            drain_repairs(run)
    run.drain()
    drain_repairs(run)
    assert len(streams.expected("totals")) > 10
    assert same(streams.answers("totals"), streams.expected("totals"))
    # Again there is nothing to do.
    before = read_rows(streams.settings.layout.answers("totals"))
    assert run.drain()["batches"] == 0 and drain_repairs(run)["repairs"] == 0
    assert read_rows(streams.settings.layout.answers("totals")) == before


def complete(streams: Streams, query: str, groups: list[dict[str, list[Row]]]) -> dict[tuple[Any, ...], bool]:
    """Return each answer, and whether it was complete when it was first given, as rows and times of batches tell it."""
    times = dict(read_columns(streams.settings.layout.queries(query), ("batch", "time_us")))
    until = {batch: time // 1000 for batch, time in times.items() if time is not None}
    first = min(row["ts"] for rows in streams.rows.values() for row in rows) // 1000 * 1000
    ticks = list(range(first, max(until.values()) + 1, 1000))
    by = {tick: min(batch for batch, time in until.items() if time >= tick) for tick in ticks}
    with duckdb.connect() as connection:
        connection.register("ticks", pa.table({"tick": ticks}))
        for name in ("heat", "smoke"):
            rows = [row | {"batch": n} for n, group in enumerate(groups, 1) for row in group[name]]
            schema = SCHEMA.append(pa.field("batch", pa.int64()))
            connection.register(name, pa.Table.from_pylist(rows, schema))
        found = connection.execute(ANSWERS).fetchall()
    return {(tick, place, kind): last <= by[tick] for tick, place, kind, last in found}


def late_of(reached: dict[str, dict[tuple[Any, ...], bool]]) -> list[tuple[Any, ...]]:
    return [each for each, is_complete in reached["fires"].items() if not is_complete]


def completeness(streams: Streams, query: str) -> list[tuple[int, int, int, float, int]]:
    settings = streams.settings
    snapshots, _ = queries_to_publish(settings.layout, settings.registered, settings.streams, None)
    with duckdb.connect() as connection:
        connection.execute(statement("serving/queries"))
        write_alone(connection, [each for each in snapshots if each.name == query])
        connection.execute(statement("serving/completeness"))
        return connection.execute(
            f"SELECT start_us, pairs, online, asked, open FROM completeness_of('{query}')"
        ).fetchall()


def periods(answers: dict[tuple[Any, ...], bool], first_us: int, count: int) -> list[tuple[int, int, int]]:
    """Return the start of each period, its answers and how many of them were complete."""
    found = []
    for start_us in range(first_us, first_us + count * 1_000_000, 1_000_000):
        own = [done for (tick, *_), done in answers.items() if start_us <= tick * 1000 < start_us + PERIOD_US]
        found.append((start_us, len(own), sum(own)))
    return found

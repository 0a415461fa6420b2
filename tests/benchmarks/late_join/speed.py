"""Rows joined a second on one core: equal keys by rows held and partners a row, and players near a ball at D1's rate.

Seconds are of the processor's time that this process used. Keys are drawn evenly, three rows of ten are late. What
decides the speed of equal keys is how many rows are held, in or beyond the processor's caches, and how many pairs
come out; the number of keys does not. Rows come from 40 sources, which one of the policies watches; it is also given
rows of 100,000 sources, of which it watches those that have room. DuckDB joins the
same rows at once and in no order, by key and by window of time (each right row in three windows); it has no rows to
hold, and waits until the last row is there. A stream of few rows is bound by the choices of slack instead: of a row
every 3.6 s, with a choice every 10 s, the microseconds a choice are told, its rows included.
"""

from __future__ import annotations

import time
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join.conditions import Condition, Distance, Equality
from lakehouse.algorithms.late_join.contract import Batch
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.policy_per_source import PerSource
from lakehouse.algorithms.late_join.qjoin import CHUNK, QJoin
from tests.benchmarks import page
from tests.benchmarks.late_join.streams import SECOND, recording
from tests.oracles.late_join.constant_slack import ConstantSlack

# Rows held by both sides, and partners of a row.
SIZES = ((1400, 0.5), (1400, 5.0), (52_000, 0.5), (52_000, 5.0))
SPACING_US, SLACK_US, SOURCES, MANY_SOURCES = 10, 5000, 40, 100_000
POLICIES = ("constant", "needed_slack", "per_source")
DISTANCE_S = 30.0
PEER = """
    WITH near AS (SELECT *, unnest([ts // $w - 1, ts // $w, ts // $w + 1]) AS part FROM r)
    SELECT l.row, near.row, greatest(l.ts, near.ts)
    FROM l JOIN near ON l.key = near.key AND l.ts // $w = part
    WHERE abs(l.ts - near.ts) <= $w
"""


def figures(quick: bool) -> dict[str, Any]:
    """Return rows a second by rows held, partners and policy, and how many times real time the distance join is."""
    rows, rounds = (200_000, 1) if quick else (2_000_000, 20)
    equality = {
        f"{held}_{partners:g}_{name}": round(rows / seconds)
        for held, partners in SIZES
        for name, seconds in _equal_keys(rows, held, partners, rounds).items()
    }
    held, partners = SIZES[0]
    many = keyed(rows, _keys(held, partners), MANY_SOURCES)
    seconds = _best(many, Equality(), _window_us(held), "per_source", min(rounds, 5))
    equality[f"{held}_{partners:g}_per_source_of_{MANY_SOURCES}"] = round(rows / seconds)
    length_s = 10.0 if quick else DISTANCE_S
    soccer = recording("D1", length_s, 1.0)
    distance = {
        f"w{window_s:g}_{name}": round(
            length_s / _best(soccer, Distance(5.0), int(window_s * SECOND), name, min(rounds, 5)), 1
        )
        for window_s in (2.0, 0.2)
        for name in POLICIES
    }
    choice_us = round(_choices(4_000 if quick else 24_000, min(rounds, 5)))
    if not quick:
        _write(equality, distance, choice_us)
    return {
        "equality_tuples_per_s": equality,
        "distance_times_real_time": distance,
        "us_a_choice_in_a_stream_of_few_rows": choice_us,
    }


def _choices(rows: int, rounds: int) -> float:
    """Return the least microseconds a choice of slack took, with the rows between, where most rows bring one."""
    batch, taken = sparse(rows), []
    for _ in range(rounds + 1):
        policy = _Counting(0.95, 600 * SECOND, 10 * SECOND, spare=1024)
        join = QJoin(Equality(), 5 * SECOND, policy)
        started = time.process_time()
        join.process(batch)
        taken.append((time.process_time() - started) / policy.choices)
    return min(taken[1:]) * 1e6


class _Counting(NeededSlack):
    """Counts its choices."""

    choices = 0

    def choose(self, time_us: int) -> tuple[int, int]:
        self.choices += 1
        return super().choose(time_us)


def sparse(rows: int) -> Batch:
    """Return rows of three keys every 3.6 s on average, of which one in five is late by half a minute on average."""
    rng = np.random.default_rng(0)
    arrival = np.sort(rng.integers(0, rows * 36 * SECOND // 10, rows))
    late = np.where(rng.random(rows) < 0.2, rng.exponential(30.0 * SECOND, rows), 0).astype(np.int64)
    side, key = (rng.integers(0, below, rows) for below in (2, 3))
    return Batch.of(side, arrival - late, arrival_us=arrival, key=key)


def _equal_keys(rows: int, held: int, partners: float, rounds: int) -> dict[str, float]:
    """Return the seconds of each policy, and of DuckDB, for a stream of which so many rows are held."""
    window_us, batch = _window_us(held), keyed(rows, _keys(held, partners))
    # In turns, so that other work on the machine slows none alone; the first turn only warms up.
    turns = [
        {name: _seconds(batch, Equality(), window_us, name) for name in POLICIES} for _ in range(rounds + 1)
    ]
    taken = {name: min(turn[name] for turn in turns[1:]) for name in POLICIES}
    return taken | {"duckdb": _in_duckdb(batch, window_us, min(rounds, 2))}


def _window_us(held: int) -> int:
    return held * SPACING_US - SLACK_US


def _keys(held: int, partners: float) -> int:
    return round(_window_us(held) / (2 * SPACING_US) / partners)


def _in_duckdb(batch: Batch, window_us: int, rounds: int) -> float:
    """Return the least seconds that DuckDB took for all pairs of the rows, as three columns in memory."""
    sides = [
        pa.table({"row": batch.row[own], "ts": batch.event_us[own], "key": batch.key[own]})
        for own in (batch.side == 0, batch.side == 1)
    ]
    taken = []
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("l", sides[0])
        connection.register("r", sides[1])
        for _ in range(rounds):
            started = time.process_time()
            connection.execute(PEER, {"w": window_us}).to_arrow_table()
            taken.append(time.process_time() - started)
    return min(taken)


def keyed(rows: int, keys: int, sources: int = SOURCES) -> Batch:
    """Return rows 10 us apart, three of ten late by 2 ms on average."""
    rng = np.random.default_rng(8)
    late = np.where(rng.random(rows) < 0.3, rng.exponential(2000.0, rows), 0.0).astype(np.int64)
    event = np.arange(rows) * 10
    side, key, source = (rng.integers(0, below, rows) for below in (2, keys, sources))
    return Batch.of(side, event - late, arrival_us=event, key=key, source=source)


def _best(batch: Batch, condition: Condition, window_us: int, policy: str, rounds: int) -> float:
    """Return the least seconds of the processor that joining a stream took; the first round only warms up."""
    return min([_seconds(batch, condition, window_us, policy) for _ in range(rounds + 1)][1:])


def _seconds(batch: Batch, condition: Condition, window_us: int, policy: str) -> float:
    """Return the seconds of the processor that joining a stream took."""
    slack = SLACK_US if isinstance(condition, Equality) else max(window_us // 20, SLACK_US)
    counting = PerSource if policy == "per_source" else NeededSlack
    own = ConstantSlack(slack, slack) if policy == "constant" else counting(0.95, 60 * SECOND)
    join = QJoin(condition, window_us, own)
    started = time.process_time()
    for at in range(0, len(batch), CHUNK):
        join.process(batch[at : at + CHUNK])
    return time.process_time() - started


def _write(equality: dict[str, int], distance: dict[str, float], choice_us: int) -> None:
    page.write(
        "late_join",
        "speed",
        "Rows joined a second, one core",
        __doc__ or "",
        page.table(["rows held, partners, how", "rows/s"], list(equality.items())),
        page.table(["window and policy", "times real time"], list(distance.items())),
        page.table(["a stream of few rows", "us"], [("a choice of slack", choice_us)]),
    )

"""Cost of a batch of 10,000 rows to a bucket of a window join by rows held: state whole and in segments.

Rows of both sides in turn, a row's partner an eighth of the window away, each with a text or a number that pairs show.
The window is as long as so many rows take. Whole: the state is read from a Parquet file, restored, and written to one
after the batch, as versions before segments did. In segments: what a task does, its state in memory, and what enters is
written. Both in one process and one bucket, without Spark; seconds are the median of the batches.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.contract import Clock
from lakehouse.queries.kind import Output
from lakehouse.queries.pairs.bucket import BucketJoin
from lakehouse.queries.pairs.held_join import HeldJoin
from lakehouse.queries.pairs.query import PairSide, PairsQuery
from lakehouse.queries.runtime.tasks import bucket as bucket_state
from lakehouse.queries.runtime.tasks.bucket import STATE, BucketState, StateBefore, packed_rows, unpacked
from tests.benchmarks import page
from tests.oracles.late_join.whole_join import held_rows, snapshot_of

BATCH, FILLING, STEP_US = 10_000, 100_000, 10
# Rows of a file.
FILE = 5_000
SIZES = (100_000, 1_000_000, 10_000_000)
SHOWN = {"o_asked": pa.string(), "o_answered": pa.float64()}


def figures(quick: bool) -> dict[str, Any]:
    """Return seconds and bytes written per batch, by rows held."""
    found = [_measured(size, 3 if quick else 15) for size in ((20_000, 100_000) if quick else SIZES)]
    if not quick:
        heads = (
            "rows held",
            "whole s",
            "whole bytes written",
            "segments s",
            "segments bytes written",
            "cold s",
        )
        page.write("late_join", "state", "The state of a window join", page.table(heads, found))
    names = ("whole_s", "whole_bytes", "segments_s", "segments_bytes", "cold_s")
    columns = list(zip(*found, strict=True))
    return {
        f"state_{name}": dict(zip(columns[0], column, strict=True))
        for name, column in zip(names, columns[1:], strict=True)
    }


def _measured(size: int, batches: int) -> list[Any]:
    query = _query(size * STEP_US)
    task = partial(BucketJoin, query, newest_us=(None, None))
    none = pa.table({"part": pa.array([], pa.string()), "content": [], "leave_us": []})
    with tempfile.TemporaryDirectory(prefix="tidemark-state-") as name:
        file, states = Path(name) / "state.parquet", list[pa.Table]()
        first, number, state = 0, 0, none
        seconds, sizes = list[float](), list[int]()
        for rows in (*[FILLING] * (size // FILLING), *[BATCH] * (batches + (size % FILLING) // BATCH)):
            number, table = number + 1, _rows(first, rows, size)
            first += rows
            before = StateBefore("states", number, str(number), partial(_read, states))
            begun = time.perf_counter()
            written = task(before)(0, table, state).rows[STATE]
            pq.write_table(written, file)
            seconds.append(time.perf_counter() - begun)
            sizes.append(file.stat().st_size)
            states.append(written.filter(_is_segment(written)))
            state = written.filter(pc.invert(_is_segment(written)))
        whole_s, whole_bytes = _whole(query, states, state, file, size, first, min(batches, 5))
        begun = time.perf_counter()
        StateBefore("another", number + 1, "", partial(_read, states)).of(0, state, partial(HeldJoin, query))
        cold_s = time.perf_counter() - begun
    own_s, own_bytes = float(np.median(seconds[-batches:])), int(np.median(sizes[-batches:]))
    return [size, round(whole_s, 3), whole_bytes, round(own_s, 3), own_bytes, round(cold_s, 3)]


def _whole(
    query: PairsQuery,
    states: list[pa.Table],
    state: pa.Table,
    file: Path,
    size: int,
    first: int,
    batches: int,
) -> tuple[float, int]:
    """Return median seconds and bytes where each batch reads, restores and writes the whole state."""
    before = StateBefore("whole", len(states) + 1, "", partial(_read, states))
    held = before.of(0, state, partial(HeldJoin, query)).held
    pq.write_table(_all_of(held), file)
    seconds = []
    for _ in range(batches):
        table = _rows(first, BATCH, size)
        first += BATCH
        begun = time.perf_counter()
        bucket_state._KEPT["whole", 0] = BucketState(_restored(query, pq.read_table(file)), {1: ""})
        work = BucketJoin(query, StateBefore("whole", 2, "", partial(_read, [])), (None, None))
        work(0, table, _ATTEMPTS)
        held = bucket_state._KEPT.pop(("whole", 0)).held
        pq.write_table(_all_of(held), file)
        seconds.append(time.perf_counter() - begun)
    return float(np.median(seconds)), file.stat().st_size


def _restored(query: PairsQuery, rows: pa.Table) -> HeldJoin:
    """Return the state that such rows hold."""
    parts = dict(zip(rows["part"].to_pylist(), rows["content"].to_pylist(), strict=True))
    held, shown = HeldJoin(query), unpacked(parts.pop("shown"))
    held.following = int(parts.pop("next"))
    del parts["method"]
    rows_held = held_rows(parts, held.join.columns)
    held.join.catch_up(parts, rows_held)
    numbers = rows_held.entries[:, 3]
    order = np.argsort(numbers)
    at = np.searchsorted(shown["number"].to_numpy(), numbers[order])
    held.shown.add(shown.take(pa.array(at)), rows_held.side[order])
    return held


def _all_of(held: HeldJoin) -> pa.Table:
    """Return the whole state as versions before segments wrote it."""
    snapshot, shown = snapshot_of(held.join), [block.rows for block in held.shown._blocks]
    own = {"method": snapshot.method.encode(), "next": str(held.following).encode()}
    parts = {**snapshot.parts, **own, "shown": packed_rows(pa.concat_tables(shown))}
    contents = pa.array(list(parts.values()), pa.binary())
    return pa.table({"part": list(parts), "content": contents, "leave_us": pa.nulls(len(parts), pa.int64())})


# What a batch finds of the attempt that made the state in memory.
_ATTEMPTS = pa.table({"part": ["attempts"], "content": [b'{"1": ""}'], "leave_us": pa.nulls(1, pa.int64())})


def _is_segment(rows: pa.Table) -> Any:
    return pc.and_(pc.is_valid(rows["leave_us"]), pc.is_valid(rows["content"]))


def _read(states: list[pa.Table], bucket: int, after: int, alive_from: Mapping[str, int]) -> list[Any]:
    from lakehouse.queries.runtime.tasks.bucket import Segment

    found = [Segment(**row) for table in states[after:] for row in table.to_pylist()]
    return [each for each in found if each.leave_us >= alive_from[each.part]]


def _query(window_us: int) -> PairsQuery:
    sides = PairSide("a", "a", ("k",), ()), PairSide("b", "b", ("k",), ())
    outputs = Output("asked", 0, "name"), Output("answered", 1, "value")
    how = (0.5, 60_000_000, 1_000_000, Clock(), "needed_slack")
    return PairsQuery("q", "", "", sides, window_us, Equality(), outputs, *how)  # type: ignore[arg-type]


def _rows(first: int, rows: int, size: int) -> pa.Table:
    number = np.arange(first, first + rows)
    side = (number % 2).astype(np.int32)
    # A key comes once on each side, an eighth of the window apart.
    key = np.where(side == 0, number // 2, number // 2 - size // 16)
    time_us, nothing = pa.array(number * STEP_US), pa.array(np.zeros(rows, np.int64))
    file, item = (
        pa.array([f"2026/05/part-{each:06}.ndjson" for each in number // FILE]),
        pa.nulls(rows, pa.int32()),
    )
    return pa.table(
        {
            **{"side": side, "event_us": time_us, "arrival_us": time_us, "row": number * 7919, "key": key},
            **{"batch": nothing, "source_file": file, "source_line": number % FILE + 1, "source_item": item},
            "o_asked": pc.if_else(pa.array(side == 0), pc.cast(pa.array(number), pa.string()), None),
            "o_answered": pc.if_else(pa.array(side == 1), pa.array(number / 7), None),
        }
    )

"""Cost of a batch to a bucket of a join-aggregate: by the rows that it holds, and over an hour at 20,000 rows a second.

COUNT(*) and SUM by key of two streams joined on the key, 1,000 keys, 60 ticks a window, rows of both sides in turn. By
rows held: batches of 10,000 rows, the window as long as so many rows take. Whole: all rows are read from a Parquet
file, restored, and written to one after the batch, as versions before segments did. In segments: what a task does, its
state in memory, and what enters is written, folded to what a key has per tick. The hour: ten seconds of rows a batch,
until the window is full and for a minute more, ticks a minute apart; seconds of the last batches by the ten that they
have. All in one process and one bucket, without Spark.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.algorithms.join_aggregate.contract import Rows
from lakehouse.algorithms.join_aggregate.factorised import Factorised
from lakehouse.queries.aggregate.bucket import BucketAggregate
from lakehouse.queries.aggregate.query import AggregateQuery, Input, Measure, shape_of
from lakehouse.queries.aggregate.rows import as_rows
from lakehouse.queries.aggregate.value_codes import BucketCodes
from lakehouse.queries.kind import Output
from lakehouse.queries.runtime.tasks.bucket import STATE, StateBefore
from tests.benchmarks import page
from tests.benchmarks.join_aggregate.run import SECOND
from tests.oracles.join_aggregate.contents import rows_held

KEYS, BATCH, FILLING, TICKS = 1000, 10_000, 100_000, 60
SIZES = (100_000, 1_000_000, 10_000_000)
RATE, BATCH_S = 20_000, 10


def figures(quick: bool) -> dict[str, Any]:
    """Return seconds and bytes written per batch by rows held, and what share of an hour's time a batch takes."""
    found = [_measured(size, 3 if quick else 15) for size in ((20_000, 100_000) if quick else SIZES)]
    share, held, written, kept = _over(60 if quick else 3600)
    if not quick:
        heads = ("rows held", "whole s", "whole bytes written", "segments s", "segments bytes written")
        hour = f"{held:,} rows held at {RATE:,} a second: a batch of {BATCH_S} s takes {share:.2f} of its time, writes"
        text = f"{hour} {written:,} bytes, and all segments that are alive have {kept:,}."
        page.write("join_aggregate", "state", "The state of a join-aggregate", page.table(heads, found), text)
    names = ("whole_s", "whole_bytes", "segments_s", "segments_bytes")
    columns = list(zip(*found, strict=True))
    by_size = {
        f"state_{name}": dict(zip(columns[0], column, strict=True))
        for name, column in zip(names, columns[1:], strict=True)
    }
    hour_of = {"held": held, "share_of_time": share, "bytes_per_batch": written, "bytes": kept}
    return by_size | {"state_hour": hour_of}


def _measured(size: int, batches: int) -> list[Any]:
    step = 3600 * SECOND // size
    query = _query(size * step)
    sizes = [FILLING] * (size // FILLING) + [BATCH] * (batches + (size % FILLING) // BATCH)
    runs = list(_run(query, sizes, step))[-batches:]
    whole_s, whole_bytes = _whole(query, size, step, min(batches, 5))
    own_s, own_bytes = (np.median([run[place] for run in runs]) for place in (0, 1))
    return [size, round(whole_s, 3), whole_bytes, round(float(own_s), 3), int(own_bytes)]


def _over(seconds: int) -> tuple[float, int, int, int]:
    """Return the share of the time that rows come in, rows held, bytes written a batch, and bytes alive."""
    query = _query(seconds * SECOND)
    runs = list(_run(query, [RATE * BATCH_S] * ((seconds + 60) // BATCH_S), SECOND // RATE))[-6:]
    spent, written = (float(np.mean([run[place] for run in runs])) for place in (0, 1))
    return round(spent / BATCH_S, 3), runs[-1][2], int(written), runs[-1][3]


def _run(query: AggregateQuery, sizes: list[int], step: int) -> Iterator[tuple[float, int, int, int]]:
    """Yield of each batch its seconds, bytes written, rows held after it, and bytes of the state."""
    state = pa.table({"part": pa.array([], pa.string()), "content": [], "leave_us": []})
    first, answered = 0, None
    with tempfile.TemporaryDirectory(prefix="tidemark-state-") as name:
        for number, rows in enumerate(sizes, 1):
            table, until = _rows(first, rows, step), (first + rows - 1) * step
            before = StateBefore(name, number, str(number), lambda *_: [])
            begun = time.perf_counter()
            work = BucketAggregate(query, shape_of(query), before, answered, until)
            result = work(0, table, state)
            own = result.rows[STATE]
            pq.write_table(own, Path(name) / "state.parquet")
            spent = time.perf_counter() - begun
            state = own.filter(pc.or_(pc.is_null(own["leave_us"]), pc.is_null(own["content"])))
            held, kept = (cast(int, result.metrics[each]) for each in ("held", "bytes"))
            yield spent, (Path(name) / "state.parquet").stat().st_size, held, kept
            first, answered = first + rows, until


def _whole(query: AggregateQuery, size: int, step: int, batches: int) -> tuple[float, int]:
    """Return median seconds and bytes where each batch reads, restores and writes all rows."""
    shape, seconds, first, tick = shape_of(query), [], size, query.every_us
    codes = BucketCodes(query)
    method = Factorised(shape)
    for begin in range(0, size, FILLING):
        filling = as_rows(_rows(begin, min(FILLING, size - begin), step), query, codes)
        method.advance(filling, np.empty(0, np.int64))
    with tempfile.TemporaryDirectory(prefix="tidemark-state-") as name:
        file = Path(name) / "state.parquet"
        _write(rows_held(method), file)
        before = -1
        for _ in range(batches):
            rows = as_rows(_rows(first, BATCH, step), query, codes)
            first += BATCH
            last = (first - 1) * step // tick * tick
            begun = time.perf_counter()
            method = Factorised(shape)
            method.advance(_read(file), np.empty(0, np.int64))
            method.advance(rows, np.array([last] if last > before else [], np.int64))
            before = last
            _write(rows_held(method), file)
            seconds.append(time.perf_counter() - begun)
        return float(np.median(seconds)), file.stat().st_size


def _write(rows: Rows, file: Path) -> None:
    parts = {field.name: getattr(rows, field.name) for field in fields(rows)}
    contents = pa.array([part.tobytes() for part in parts.values()], pa.binary())
    pq.write_table(pa.table({"part": list(parts), "content": contents}), file)


def _read(file: Path) -> Rows:
    """Return rows of one attribute and one number each."""
    parts = dict(zip(*(column.to_pylist() for column in pq.read_table(file).columns), strict=True))
    kinds = {"side": np.int8, "values": np.float64}
    columns = {name: np.frombuffer(part, kinds.get(name, np.int64)) for name, part in parts.items()}
    return Rows(
        **columns | {name: columns[name].reshape(len(columns["side"]), -1) for name in ("keys", "values")}
    )


def _query(window_us: int) -> AggregateQuery:
    sides = tuple(Input(name, name, window_us, ((0, "k"),), ("v",)) for name in "ab")
    measures = (Measure("n", "count"), Measure("total", "sum", 1, 0))
    how = (None, max(window_us // TICKS, 1), 0, None, None, "factorised", False, "", False)
    return AggregateQuery("q", "", "", sides, (Output("device", 0, "d"),), measures, *how)  # type: ignore[arg-type]


def _rows(first: int, rows: int, step: int) -> pa.Table:
    number = np.arange(first, first + rows)
    side, key = (number % 2).astype(np.int32), number // 2 % KEYS
    device = pa.DictionaryArray.from_arrays(pa.array(key), pa.array([f"d{each}" for each in range(KEYS)]))
    no = pa.array(np.zeros(rows, np.bool_))
    return pa.table(
        {
            **{"side": side, "event_us": number * step, "row": number, "is_unusable": no, "is_refused": no},
            **{"k_0": key, "v_0_0": (number % 1000) / 7, "v_1_0": (number % 1000) / 7},
            "g_device": pc.if_else(pa.array(side == 0), device.cast(pa.string()), None),
        }
    )

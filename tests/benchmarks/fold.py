"""Cost of a fold of a rollup after a day of batches, by the number of nodes that the table holds.

    python -m tests.benchmarks.fold [--quick] [--json]

A thousand devices have a node a minute, an hour and a day, in a table that is folded; then a day comes, in 48 batches
of half an hour, one in a hundred of its nodes of any time before. Beside the fold of what is touched stands one of
everything by the same code, as when a table is folded for the first time, what a publish folds then that makes all
nodes anew, without its file, and, in a full run, plain Spark: all partial nodes grouped in one shuffle, sums of doubles
added as they come, and written by one task.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import Schema

from lakehouse.config.stream import Stream
from lakehouse.engine import engine_of
from lakehouse.engine.parts import commit_entries, sink_of
from lakehouse.rollup.fold import fold
from lakehouse.rollup.nodes import NodeFolder
from lakehouse.rollup.rollup import folded_nodes
from lakehouse.settings import load_settings
from lakehouse.spark.session import build_session, end_session
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import (
    arrow_schema,
    create_table,
    open_table,
)
from tests.benchmarks.parts import cpu_s, run_parts

MINUTE, DEVICES, DAY, BATCHES = 60_000_000, 1000, 1440, 48
T0 = 1_600_041_600_000_000
NEVER = [-(2**62)] * 3
CONFIG = """
home = "var"
[streams.readings]
event_time = { column = "ts", unit = "s" }
keys = ["device"]
measures = ["temp"]
groupings = [["device"]]
levels = ["1m for 60d", "1h for 1y", "1d forever"]
[streams.readings.source]
path = "landing/*"
format = "ndjson"
[streams.readings.columns]
device = "string"
ts = "int"
temp = "double"
"""
PLACE = (("level", pa.int32()), ("grouping", pa.int32()), ("start_us", pa.int64()), ("batch", pa.int64()))
REST = (("device", pa.string()), ("rows", pa.int64()), ("first_us", pa.int64()), ("last_us", pa.int64()))
TEMP = {"n": pa.int64(), "sum": pa.float64(), "carry": pa.float64(), "min": pa.float64(), "max": pa.float64()}
TEMP |= {"first_us": pa.int64(), "last_us": pa.int64()}
SCHEMA = pa.schema([*PLACE, *REST, *((f"temp__{part}", kind) for part, kind in TEMP.items())])
_NAMES = pa.array([f"device-{number:04d}" for number in range(DEVICES)])


def stream_of(folder: Path) -> Stream:
    """Return the stream that the nodes are of."""
    (folder / "tidemark.toml").write_text(CONFIG)
    return load_settings(folder / "tidemark.toml").stream("readings")


def nodes(level: int, minutes: np.ndarray[Any, Any], devices: np.ndarray[Any, Any], batch: int) -> pa.Table:
    """Return one node for each pair of a minute and a device, at its level."""
    width = (1, 60, 1440)[level - 1]
    start = T0 + minutes // width * width * MINUTE
    size, one = len(minutes), np.ones(len(minutes), np.int64)
    value = (minutes * 31 + devices) % 1000 / 10.0
    values = {"n": one, "sum": value, "carry": np.zeros(size), "min": value, "max": value}
    values |= {"first_us": start, "last_us": start}
    columns = [
        np.full(size, level, np.int32),
        np.zeros(size, np.int32),
        start,
        one * batch,
        _NAMES.take(devices),
    ]
    return pa.table([*columns, one, start, start, *values.values()], SCHEMA)


def history(total: int) -> Iterator[pa.Table]:
    """Yield nodes of all levels, a day at a time, until there are so many."""
    minutes = total // DEVICES
    for first in range(0, minutes, DAY):
        day = np.arange(first, min(first + DAY, minutes))
        yield _grid(1, day)
        yield _grid(2, day[::60])
        yield _grid(3, day[:1])


def _grid(level: int, minutes: np.ndarray[Any, Any]) -> pa.Table:
    return nodes(level, np.repeat(minutes, DEVICES), np.tile(np.arange(DEVICES), len(minutes)), 1)


def day_of_batches(after: int) -> Iterator[pa.Table]:
    """Yield the nodes of 48 batches behind so many minutes, one in a hundred of any minute before."""
    random = np.random.default_rng(7)
    for batch in range(BATCHES):
        fresh = after + batch * (DAY // BATCHES) + np.arange(DAY // BATCHES)
        minutes = np.repeat(fresh, DEVICES)
        devices = np.tile(np.arange(DEVICES), len(fresh))
        late = random.random(len(minutes)) < 0.01
        minutes = np.where(late, random.integers(0, after, len(minutes)), minutes)
        levels = []
        for level, width in enumerate((1, 60, 1440), start=1):
            places = np.unique(minutes // width * width * DEVICES + devices)
            levels.append(nodes(level, places // DEVICES, places % DEVICES, batch + 2))
        yield pa.concat_tables(levels)


def append(table: Location, parts: Iterator[pa.Table]) -> int:
    """Append nodes, each table as a file of its own, all in one commit; return how many."""
    sink = sink_of(table)
    entries = pa.concat_tables([sink.write(rows) for rows in parts])
    commit_entries(table, entries)
    return sum(entries["rows"].to_pylist())


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return how long work took, how long processors worked for it, and what it gave."""
    started, before = time.perf_counter(), cpu_s()
    result = work()
    return time.perf_counter() - started, cpu_s() - before, result


def measure(total: int, with_spark: bool) -> dict[str, Any]:
    """Return what folds of a table of so many nodes cost."""
    with tempfile.TemporaryDirectory(prefix="tidemark-fold-") as scratch:
        folder = Path(scratch)
        stream, home = stream_of(folder), Home(folder / "var")
        table = home.rollup(stream.name)
        create_table(
            table,
            Schema.from_arrow(SCHEMA).to_json(),
            properties={"delta.dataSkippingStatsColumns": "level,grouping,start_us,batch"},
        )
        fields = [field for field in SCHEMA if field.name != "batch"]
        folding = NodeFolder(stream, 0, pa.schema(fields))
        engine = engine_of(session := build_session(load_settings(folder / "tidemark.toml")))
        held = append(table, history(total))
        whole_s, whole_cpu_s, _ = timed(lambda: fold(engine, table, folding, NEVER))
        came = append(table, day_of_batches(total // DEVICES))
        anew = timed(lambda: sum(part.num_rows for part in folded_nodes(home, stream, NEVER)))
        spark_s = _by_spark(table, folder) if with_spark else None
        touched_s, touched_cpu_s, done = timed(lambda: fold(engine, table, folding, NEVER))
        idle_s, _, _ = timed(lambda: fold(engine, table, folding, NEVER))
        assert arrow_schema(open_table(table)) == SCHEMA
        end_session(session)
    found = {
        "nodes": held,
        "came": came,
        "parts_folded": done["parts_folded"],
        "touched_s": round(touched_s, 2),
        "touched_cpu_s": round(touched_cpu_s, 2),
        "everything_s": round(whole_s, 2),
        "everything_cpu_s": round(whole_cpu_s, 2),
        "nothing_due_s": round(idle_s, 3),
        "anew_s": round(anew[0], 2),
        "anew_cpu_s": round(anew[1], 2),
    }
    return found | ({"spark_s": round(spark_s, 2)} if spark_s is not None else {})


def _by_spark(table: Location, folder: Path) -> float:
    from pyspark.sql import functions as F

    from lakehouse.spark.session import started_session

    spark = started_session(load_settings(folder / "tidemark.toml"))
    known = spark.read.format("delta").load(str(table))
    combine = {F.sum: ("rows", "temp__n", "temp__sum"), F.min: ("first_us", "temp__first_us", "temp__min")}
    combine |= {F.max: ("last_us", "temp__last_us", "temp__max")}
    parts = [how(name).alias(name) for how, names in combine.items() for name in names]
    whole = known.where("level > 0").groupBy("level", "grouping", "start_us", "device").agg(*parts)
    ordered = whole.repartition(1).sortWithinPartitions("level", "grouping", "start_us")
    seconds, _, _ = timed(lambda: ordered.write.parquet(str(folder / "before")))
    spark.stop()
    return seconds


def figures(quick: bool) -> dict[str, Any]:
    """Return the costs at each size."""
    sizes = (100_000,) if quick else (1_000_000, 10_000_000, 30_000_000)
    return {"cores": os.cpu_count(), "folds": [measure(size, not quick) for size in sizes]}


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("fold",))

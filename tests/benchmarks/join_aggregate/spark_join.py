"""The same query as a join of two streams in Spark with an aggregation behind it: time, rows held, wrong ticks.

The streams are those of `peers`, written as one file a micro-batch. Spark 4 allows an aggregation behind a join of
streams in append mode: each row goes into the sliding windows that it is in, both sides are joined on key and window,
and the pairs are counted and summed by window. Its watermark is as long as ours waits, and what is later is dropped:
there are no revisions. The watermark moves only from batch to batch, so that a row is kept somewhat longer than ours.
The last ticks need rows behind them that never come; they are left out for both. Seconds are wall time on all cores
for Spark, without the start of its session, and of one core for ours.
"""

from __future__ import annotations

import os
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.settings import Settings
from tests.benchmarks import page
from tests.benchmarks.join_aggregate import peers
from tests.benchmarks.join_aggregate.run import OURS, SECOND, warm_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.algorithms.join_aggregate.contract import Rows

# A batch brings ten seconds of the streams.
BATCH_S = 10
HEADS = ("method", "seconds", "most rows held", "ticks wrong", "answers wrong")


def figures(quick: bool) -> dict[str, Any]:
    """Return seconds, most rows held, and the ticks that are wrong, of Spark and of ours."""
    seconds = 60 if quick else 600
    rows = peers.stream(seconds)
    warm_up((OURS,), peers.SHAPE)
    ticks, come = peers.ticks_of(rows)
    # A tick of Spark's needs a whole batch behind it, and one more that moves the watermark.
    wanted = set(ticks[ticks <= rows.enter_us.max() - 3 * BATCH_S * SECOND].tolist())
    truth, _ = peers.by_duckdb(rows, ticks, np.full(len(ticks), len(rows)))
    (ours, spent), _ = peers.by_ours(rows, ticks, come)
    spark, took, held = _by_spark(rows, seconds // BATCH_S)
    found = {
        name: _figures(answers, truth, wanted, each)
        for name, answers, each in ((OURS, ours, (spent, _held(rows))), ("spark", spark, (took, held)))
    }
    if not quick:
        shown = f"{len(rows):,} rows, {len(wanted)} ticks, {seconds // BATCH_S} batches."
        lines = [[name, *each.values()] for name, each in found.items()]
        page.write(
            "join_aggregate",
            "spark_join",
            "Beside Spark's own join of streams",
            __doc__ or "",
            shown,
            page.table(HEADS, lines),
        )
    return {"spark_join": found}


def _figures(
    answers: peers.Answers, truth: peers.Answers, wanted: set[int], spent: tuple[float, int]
) -> dict[str, Any]:
    within = [
        {name: answer for name, answer in each.items() if name[0] in wanted} for each in (answers, truth)
    ]
    wrong = peers.wrong_answers(*within)
    return {
        "seconds": round(spent[0], 3),
        "most_rows_held": spent[1],
        "wrong_ticks": len({tick for tick, _ in wrong}),
        "wrong_answers": len(wrong),
    }


def _held(rows: Rows) -> int:
    """Return the most rows that are in their windows, or may still be revised, at once."""
    newest = np.maximum.accumulate(rows.enter_us)
    kept = peers.WINDOW + peers.SLACK
    gone = np.searchsorted(np.sort(rows.enter_us), newest - kept)
    return int((np.arange(1, len(rows) + 1) - gone).max())


def _by_spark(rows: Rows, batches: int) -> tuple[peers.Answers, float, int]:
    from lakehouse.spark.session import started_session

    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = Path(name)
        _write(folder, rows, batches)
        spark = started_session(Settings(home=folder / "home"))
        started = time.perf_counter()
        query = (
            _joined(spark, folder)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder / "answers"))
        )
        query.awaitTermination()
        took = time.perf_counter() - started
        held = max(sum(one.numRowsTotal for one in told.stateOperators) for told in query.recentProgress)
        found = pq.read_table(folder / "answers").to_pylist()
    return {(one["tick"], one["key"]): (one["results"], one["total"]) for one in found}, took, held


def _write(folder: Path, rows: Rows, batches: int) -> None:
    """Write each side's rows in order of arrival, one file a batch."""
    ends = np.linspace(0, len(rows), batches + 1).astype(int)
    for side, name in enumerate(("a", "b")):
        (folder / name).mkdir()
        for part, (first, last) in enumerate(pairwise(ends)):
            given = rows[first:last]
            mine = given[given.side == side]
            columns = {
                "key": mine.keys[:, 0],
                "ts": pa.array(mine.enter_us, pa.timestamp("us", tz="UTC")),
                "v": mine.values[:, 0],
            }
            file = folder / name / f"{part:03d}.parquet"
            pq.write_table(pa.table(columns), file)
            os.utime(file, (part, part))  # Spark takes files in order of their times.


def _joined(spark: SparkSession, folder: Path) -> DataFrame:
    from pyspark.sql import functions as F

    left, right = (_read(spark, folder / name) for name in ("a", "b"))
    pairs = left.join(right.withColumnRenamed("v", "value"), ["key", "span"])
    found = pairs.groupBy("span", "key").agg(F.count("*").alias("results"), F.sum("value").alias("total"))
    return found.select(F.unix_micros("span.end").alias("tick"), "key", "results", "total")


def _read(spark: SparkSession, folder: Path) -> DataFrame:
    from pyspark.sql import functions as F

    rows = spark.readStream.schema("key bigint, ts timestamp, v double").option("maxFilesPerTrigger", 1)
    spans = F.window("ts", f"{peers.WINDOW // SECOND} seconds", f"{peers.EVERY // SECOND} seconds")
    given = rows.parquet(str(folder)).withWatermark("ts", f"{peers.WAIT // SECOND} seconds")
    return given.select("key", spans.alias("span"), "v")

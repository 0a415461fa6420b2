"""Spark's own join of two streams under a watermark, on the same arrivals: pairs that it drops for good, rows it holds.

A tenth of the rows is up to a minute late; both sides come in micro-batches of one file each. Spark forgets what is
older than its watermark, and a pair lost is lost: there is no log. QJoin's online share is beside it; its repair finds
the rest. Three watermarks: none, the delay that 95 of 100 rows have at most, and the largest delay.
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

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.qjoin import QJoin
from lakehouse.settings import Settings
from tests.benchmarks import page
from tests.benchmarks.late_join.repair import WINDOW, stream
from tests.benchmarks.late_join.streams import SECOND, START_US, in_event_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.algorithms.late_join.contract import Batch

RECALL, PERIOD = 0.95, 60 * SECOND


def figures(quick: bool) -> dict[str, Any]:
    """Return the share of pairs that Spark's join drops, per watermark in seconds, and QJoin's online."""
    from lakehouse.spark.session import started_session

    batch = stream(0.1, 20_000 if quick else 200_000)
    whole = len(QJoin(Equality(), WINDOW, NeededSlack(RECALL, PERIOD)).process(in_event_order(batch)).pairs)
    delay = (batch.arrival_us - batch.event_us) / SECOND
    watermarks = [0.0, round(float(np.quantile(delay, 0.95)), 1), round(float(delay.max()), 1)]
    rows = [_ours(batch, whole)]
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = Path(name)
        spark = started_session(Settings(home=folder / "home"))
        _write(folder, batch, 4 if quick else 20)
        rows += [_spark(spark, folder, seconds, whole) for seconds in watermarks]
    if not quick:
        heads = ["join", "pairs lost", "most rows held", "seconds"]
        page.write(
            "late_join", "spark_join", "Spark's own join of streams", __doc__ or "", page.table(heads, rows)
        )
    lost = {f"{seconds:g}": row[1] for seconds, row in zip(watermarks, rows[1:], strict=True)}
    held = {f"{seconds:g}": row[2] for seconds, row in zip(watermarks, rows[1:], strict=True)}
    return {"spark_join_pairs_lost": lost, "spark_join_most_held": held, "online_pairs_lost": rows[0][1]}


def _ours(batch: Batch, whole: int) -> list[Any]:
    started = time.perf_counter()
    join = QJoin(Equality(), WINDOW, NeededSlack(RECALL, PERIOD))
    found = len(join.process(batch).pairs)
    held = join.held_over_time()[:, 1]
    seconds = time.perf_counter() - started
    return ["QJoin, online", round(1 - found / whole, 4), int(held.max(initial=join.held)), round(seconds, 2)]


def _write(folder: Path, batch: Batch, parts: int) -> None:
    """Write each side's rows in order of arrival, one file a micro-batch."""
    for side, name in enumerate(("left", "right")):
        (folder / name).mkdir()
        ends = np.linspace(0, len(batch), parts + 1).astype(int)
        for part, (first, last) in enumerate(pairwise(ends)):
            rows = batch[first:last]
            mine = rows[rows.side == side]
            # Spark's watermark begins at 1970: rows before that would be late from the first.
            times = pa.array(START_US + mine.event_us, pa.timestamp("us", tz="UTC"))
            table = pa.table({"key": mine.key, "row": mine.row, "ts": times})
            file = folder / name / f"{part:03d}.parquet"
            pq.write_table(table, file)
            os.utime(file, (part, part))  # Spark takes files in order of their times


def _spark(spark: SparkSession, folder: Path, watermark_s: float, whole: int) -> list[Any]:
    from pyspark.sql import functions as F

    left, right = (_read(spark, folder / name, watermark_s).alias(name) for name in ("left", "right"))
    near = F.expr(
        f"left.key = right.key AND left.ts BETWEEN right.ts - INTERVAL {WINDOW // SECOND} SECONDS "
        f"AND right.ts + INTERVAL {WINDOW // SECOND} SECONDS"
    )
    target = folder / f"pairs-{watermark_s:g}"
    joined = left.join(right, near).select(F.col("left.row").alias("l"), F.col("right.row").alias("r"))
    started = time.perf_counter()
    query = (
        joined.writeStream.format("parquet")
        .option("checkpointLocation", str(target / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(target / "rows"))
    )
    query.awaitTermination()
    seconds = time.perf_counter() - started
    found = spark.read.parquet(str(target / "rows")).count()
    held = max(sum(one.numRowsTotal for one in told.stateOperators) for told in query.recentProgress)
    return [f"Spark, watermark {watermark_s:g} s", round(1 - found / whole, 4), held, round(seconds, 2)]


def _read(spark: SparkSession, folder: Path, watermark_s: float) -> DataFrame:
    rows = spark.readStream.schema("key bigint, row bigint, ts timestamp").option("maxFilesPerTrigger", 1)
    return rows.parquet(str(folder)).withWatermark("ts", f"{watermark_s} seconds")

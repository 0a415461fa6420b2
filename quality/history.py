"""Verdicts of every run in one Delta table, and what the last good run had seen.

One row is one rule's verdict in one run. Rows of one run are appended in one commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.spark.tables import exists, read
from quality.gate import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
    run_id STRING COMMENT 'the run of one stream',
    stream STRING COMMENT 'the stream that was checked, query-<name> for a registered query',
    batch BIGINT COMMENT 'the newest ingest batch, or batch of the query, that the run had seen',
    table STRING COMMENT 'what was checked: a table, or such as totals of a stream, periods of a query',
    expectation STRING COMMENT 'the metric that the rule is about',
    success BOOLEAN COMMENT 'whether the rule held',
    observed DOUBLE COMMENT 'the largest value of the metric',
    expected STRING COMMENT 'the limit',
    at TIMESTAMP COMMENT 'when it was checked'
"""


def append(spark: SparkSession, table: Path, stream: str, batch: int, verdicts: Sequence[Verdict]) -> str:
    """Append one run's verdicts and return its run id."""
    now = datetime.now(UTC)
    run_id = f"{stream}-{now:%Y%m%dT%H%M%S.%fZ}"
    rows = [
        (run_id, stream, batch, v.table, v.metric, v.success, v.observed, v.expected, now) for v in verdicts
    ]
    spark.createDataFrame(rows, SCHEMA).coalesce(1).write.format("delta").mode("append").save(str(table))
    return run_id


def verified_through(spark: SparkSession, table: Path, stream: str) -> int:
    """Return the newest batch that a run of this stream without a failure had seen; -1 where there was none."""
    if not exists(table):
        return -1
    runs = read(spark, table).where(F.col("stream") == stream).groupBy("run_id")
    good = runs.agg(F.min("success").alias("good"), F.max("batch").alias("batch")).where("good")
    newest = good.agg(F.max("batch")).first()
    return -1 if newest is None or newest[0] is None else int(newest[0])

"""Bytes that Spark says it has moved: shuffles, rows that are broadcast, and nothing of earlier queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from tests.support.shuffle_metrics import Meter, Moved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Rows that nothing can compress to less than 16 bytes or so."""
    return spark.range(count).select((F.col("id") % 1000).alias("key"), F.expr("uuid()").alias("told"))


def test_bytes_that_are_shuffled_are_counted_once(spark: SparkSession) -> None:
    run(rows(spark, 5_000).repartition(3, "key"))
    meter = Meter(spark)

    assert meter.read() == Moved(0, 0)
    run(rows(spark, 20_000).repartition(3, "key"))

    moved = meter.read()
    assert 20_000 * 16 < moved.shuffled < 20_000 * 60
    assert moved.collected < 50_000
    assert meter.read() == moved


def test_rows_that_are_broadcast_are_counted_on_their_way_to_the_driver(spark: SparkSession) -> None:
    few, many = rows(spark, 1_000), spark.range(10_000).select((F.col("id") % 1000).alias("key"))
    meter = Meter(spark)

    run(F.broadcast(few).join(many, "key"))

    moved = meter.read()
    assert moved.shuffled == 0
    assert 1_000 * 16 < moved.collected < 1_000 * 60 + 50_000
    assert moved.total == moved.collected

"""Housekeeping of Delta tables: merging small files, and deleting files that no version in reach uses."""

from __future__ import annotations

import time
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

SMALL_FILES = 16
RETENTION_HOURS = 168


def merge_small_files(spark: SparkSession, table: Path) -> int:
    """Merge files when there are many; return how many were merged. Contents stay the same."""
    delta = DeltaTable.forPath(spark, str(table))
    files = delta.detail().select("numFiles").first()
    if files is None or files[0] < SMALL_FILES:
        return 0
    metrics = delta.optimize().executeCompaction().select("metrics.numFilesRemoved").first()
    return int(metrics[0]) if metrics else 0


def vacuum(spark: SparkSession, table: Path) -> int:
    """Delete data files that no version of the last week uses; return how many there were.

    Looking through the folder first is cheap; Spark's own listing is not, so it runs only when there is work.
    """
    oldest = time.time() - RETENTION_HOURS * 3600
    before = [path for path in table.rglob("*.parquet") if path.stat().st_mtime < oldest]
    in_use = DeltaTable.forPath(spark, str(table)).detail().select("numFiles").first()
    if in_use is None or len(before) <= in_use[0]:
        return 0
    DeltaTable.forPath(spark, str(table)).vacuum(RETENTION_HOURS)
    return sum(not path.exists() for path in before)

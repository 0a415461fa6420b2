"""Housekeeping of Delta tables: merging small files, deleting files that no version in reach uses, a log that ends.

Any version of a table's history, of the last week if nobody says otherwise, can be read (time travel), so a reader that
began before a merge is not broken. Files and log entries older than that go: the files by ``vacuum``, the entries by
what Delta does when it writes a checkpoint; there it lets whole days pass, which we do not wait for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.home.table_log import TableFacts, commits_of, read_log, removed_files
from lakehouse.spark.tables import HISTORY_US, kept

SMALL_FILES = 16
# Larger files are left alone: a merge then costs what came in since, not what a table holds.
SMALL_BYTES = 64 * 1024 * 1024
_MERGES = {
    "minFileSize": str(SMALL_BYTES),
    "maxFileSize": str(4 * SMALL_BYTES),
    # One core at a time: jobs go on beside a merge.
    "maxThreads": "1",
}


def compact_and_vacuum(spark: SparkSession, table: Path, history_us: int = HISTORY_US) -> dict[str, int]:
    """Merge small files, delete unused ones and bound the log; contents stay the same.

    ``history_us``: how far back versions can be read.

    Returns:
        How many files were merged and deleted, and how many files and log entries there are now.
    """
    merged = merge_small_files(spark, table)
    return {"files_merged": merged, **clear(spark, table, history_us), **left(table)}


def clear(spark: SparkSession, table: Path, history_us: int = HISTORY_US) -> dict[str, int]:
    """Delete files that no version in reach uses, and bound the log; return how many files were deleted."""
    _bound(spark, table, kept(history_us))
    _expire(spark, table, history_us)
    return {"files_deleted": vacuum(spark, table, history_us)}


def left(table: Path) -> dict[str, int]:
    """Return how many files and log entries a table has."""
    facts = read_log(table)
    return {"files": len(facts.files), "log_entries": len(commits_of(table))} if facts else {}


def merge_small_files(spark: SparkSession, table: Path) -> int:
    """Merge files when there are many small ones; return how many were merged.

    Rows may be appended meanwhile; whoever deletes some must wait, or loses against it.
    """
    facts = read_log(table)
    if facts is None or sum(size < SMALL_BYTES for size in facts.files.values()) < SMALL_FILES:
        return 0
    for name, value in _MERGES.items():
        spark.conf.set(f"spark.databricks.delta.optimize.{name}", value)
    metrics = DeltaTable.forPath(spark, str(table)).optimize().executeCompaction()
    removed = metrics.select("metrics.numFilesRemoved").first()
    return int(removed[0]) if removed else 0


def vacuum(spark: SparkSession, table: Path, history_us: int) -> int:
    """Delete data files that no version of the table's history uses; return how many there were.

    Looking through the folder first is cheap; Spark's own listing is not, so it runs only when there is work.
    """
    facts = read_log(table)
    if facts is None:
        return 0
    unused = _unused(table, facts, time.time() - history_us / 1e6)
    if unused:
        # How long is the table's own property; an argument would be rounded to hours.
        DeltaTable.forPath(spark, str(table)).vacuum()
    return sum(not path.exists() for path in unused)


def _unused(table: Path, facts: TableFacts, oldest: float) -> list[Path]:
    left = removed_files(table).items()
    in_reach = {*facts.files, *(path for path, at_ms in left if at_ms / 1000 >= oldest)}
    data = (path for path in table.rglob("*.parquet") if "_delta_log" not in path.parts)
    return [path for path in data if path not in in_reach and path.stat().st_mtime < oldest]


def _expire(spark: SparkSession, table: Path, history_us: int) -> None:
    """Let Delta delete the log entries that no version in reach needs, to the minute instead of to the day."""
    commits = commits_of(table)
    if not commits or commits[0].stat().st_mtime > time.time() - history_us / 1e6:
        return
    jvm = cast(Any, spark._jvm)
    delta, none = jvm.org.apache.spark.sql.delta, jvm.scala.Option.apply(None)
    minutes = getattr(delta, "TruncationGranularity$").__getattr__("MODULE$").MINUTE()
    log = delta.DeltaLog.forTable(spark._jsparkSession, str(table))
    log.cleanUpExpiredLogs(log.unsafeVolatileSnapshot(), none, none, minutes)


def _bound(spark: SparkSession, table: Path, properties: Mapping[str, str]) -> None:
    facts = read_log(table)
    if facts is not None and any(facts.properties.get(name) != value for name, value in properties.items()):
        told = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ({told})")

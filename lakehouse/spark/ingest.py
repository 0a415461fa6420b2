"""One ingest batch: a manifest's records to raw, quarantine and ledger, exactly once.

Raw and quarantine are appended first, the ledger last. A batch is finished when its ledger row is there; readers of
raw and quarantine look at finished batches only. Each append is skipped when it was already made, so a batch that
died anywhere is simply run again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.algorithms.ingest.duplicates_scan import CONFLICT, DUPLICATE
from lakehouse.algorithms.ingest.lateness import Lateness
from lakehouse.catalog.crashpoint import crash_point
from lakehouse.catalog.layout import Home
from lakehouse.catalog.stream import Stream
from lakehouse.spark import tables
from lakehouse.spark.duplicates import verdicts_on
from lakehouse.spark.lateness import lateness_of
from lakehouse.spark.quarantine import requeued_lines
from lakehouse.spark.sources.fields import with_fields
from lakehouse.spark.sources.files import Landing, Manifest
from lakehouse.spark.sources.lines import NumberedLines, read_lines
from lakehouse.spark.sources.rows import typed_rows

_ORIGIN = ["source_file", "source_line", "source_item"]
COUNTS = ("received", "requeued", "accepted", "quarantined", "duplicates", "late")


@dataclass(frozen=True)
class Progress:
    """How far a stream has come: its last finished batch (0 for none) and the newest event time accepted."""

    batch: int
    newest_us: int | None


@dataclass(frozen=True)
class StreamTables:
    """The tables an ingest of one stream writes."""

    spark: SparkSession
    layout: Home
    stream: Stream

    def create(self) -> bool:
        """Create those that are not there yet; the ledger is last, so when it is there all are."""
        name = self.stream.name
        if tables.exists(self.layout.ledger(name)):
            return False
        _side_by_side(
            lambda: tables.create_raw(self.spark, self.layout.raw(name), self.stream),
            lambda: tables.create_quarantine(self.spark, self.layout.quarantine(name)),
        )
        tables.create_ledger(self.spark, self.layout.ledger(name))
        return True

    def progress(self) -> Progress:
        """Return how far the ledger has come."""
        ledger = tables.read(self.spark, self.layout.ledger(self.stream.name))
        last, newest = ledger.agg(F.max("batch"), F.max("newest_us")).first() or (None, None)
        return Progress(int(last or 0), newest)


@dataclass(frozen=True)
class Batch:
    """The records of one manifest on their way."""

    tables: StreamTables
    manifest: Manifest
    landing: Landing
    before: Progress

    @cached_property
    def lines(self) -> NumberedLines:
        """The numbered lines of the batch."""
        spark, stream = self.tables.spark, self.tables.stream
        if self.manifest.kind == "requeue":
            return requeued_lines(spark, self.tables.layout, stream, self.landing, self.manifest)
        return read_lines(spark, self.manifest.files, stream.source)

    @cached_property
    def rows(self) -> DataFrame:
        """Every row of the batch, typed, with its reason for rejection; held until ``release``."""
        frame, stream = self.lines.frame, self.tables.stream
        rows = typed_rows(with_fields(frame, stream, self.lines.layouts), stream)
        if self.manifest.kind == "requeue":
            wanted = frame.select(*_ORIGIN[:2], "items")
            rows = (
                rows.join(wanted, _ORIGIN[:2])
                .where(F.array_contains("items", F.col("source_item")))
                .drop("items")
            )
        return rows.persist(StorageLevel.MEMORY_AND_DISK)

    @cached_property
    def usable(self) -> DataFrame:
        """Rows that are to be accepted unless they repeat one."""
        return self.rows.where(F.col("reason").isNull())

    @cached_property
    def by_file(self) -> list[Row]:
        """Counts and times per file and reason: the one pass that also reads and parses the batch."""
        return self.rows.groupBy("source_file", "reason").agg(*self._totals()).collect()

    @cached_property
    def repeats(self) -> DataFrame | None:
        """Verdicts on usable rows that repeat an accepted one, None for a stream without identity."""
        good = [row for row in self.by_file if row["reason"] is None]
        if not self.tables.stream.identity or not good:
            return None
        earlier = self._earlier() if self.before.batch else None
        times = min(row["low"] for row in good), max(row["high"] for row in good)
        found = verdicts_on(self.usable, earlier, self.tables.stream, times)
        return found.persist(StorageLevel.MEMORY_AND_DISK)

    def _earlier(self) -> DataFrame:
        raw = tables.read(self.tables.spark, self.tables.layout.raw(self.tables.stream.name))
        return raw.where(F.col("batch") < self.manifest.batch)

    @cached_property
    def repeat_counts(self) -> dict[int, int]:
        """How many duplicates and conflicts there are."""
        if self.repeats is None:
            return {}
        return {row["verdict"]: row["count"] for row in self.repeats.groupBy("verdict").count().collect()}

    @cached_property
    def accepted(self) -> DataFrame:
        """Rows for raw."""
        if self.repeats is None or not self.repeat_counts:
            return self.usable
        return self.usable.join(self.repeats.select(*_ORIGIN), _ORIGIN, "left_anti")

    @property
    def rejected(self) -> DataFrame:
        """Records for quarantine, conflicts included."""
        bad = self.rows.where(F.col("reason").isNotNull()).select("reason", "detail", "record", *_ORIGIN)
        return bad.unionByName(self._conflicts()) if self.repeat_counts.get(CONFLICT) else bad

    def _conflicts(self) -> DataFrame:
        assert self.repeats is not None
        found = self.repeats.where(F.col("verdict") == CONFLICT).select(*_ORIGIN)
        detail = f"same identity ({', '.join(self.tables.stream.identity)}) as an accepted row, other content"
        # Good rows do not carry their bytes along; the few that conflict fetch them from where they came.
        lines = self.lines.frame.join(F.broadcast(found), _ORIGIN[:2])
        return lines.select(
            F.lit("conflict").alias("reason"), F.lit(detail).alias("detail"), "record", *_ORIGIN
        )

    def commit(self) -> dict[str, Any]:
        """Append raw, quarantine and ledger; return the ledger row."""
        entry = self._ledger_row()
        crash_point("ingest.batch-parsed")
        _side_by_side(self._append_raw, *([self._append_quarantine] if entry["quarantined"] else []))
        self._append_ledger(entry)
        crash_point("ingest.ledger-appended")
        return entry

    def _append_raw(self) -> None:
        self._append(self.accepted.drop("reason", "detail", "record"), "raw")
        crash_point("ingest.raw-appended")

    def _append_quarantine(self) -> None:
        self._append(self.rejected, "quarantine")
        crash_point("ingest.quarantine-appended")

    def _append(self, rows: DataFrame, table: str) -> None:
        name, batch = self.tables.stream.name, self.manifest.batch
        path = getattr(self.tables.layout, table)(name)
        tables.append_once(
            rows.withColumn("batch", F.lit(batch).cast("bigint")), path, f"ingest-{name}", batch
        )

    def _append_ledger(self, entry: dict[str, Any]) -> None:
        name = self.tables.stream.name
        path = self.tables.layout.ledger(name)
        schema = tables.read(self.tables.spark, path).schema
        row = [tuple(entry[field] for field in schema.names[:-1])]
        row_frame = self.tables.spark.createDataFrame(row, T.StructType(schema.fields[:-1])).coalesce(1)
        row_frame = row_frame.withColumn("committed_at", F.current_timestamp())
        tables.append_once(row_frame, path, f"ingest-{name}", self.manifest.batch)

    def release(self) -> None:
        """Let go of what was held in memory; first what was derived, or Spark would plan it anew."""
        for held in ("repeats", "rows"):
            frame = self.__dict__.get(held)
            if frame is not None:
                frame.unpersist()

    def _ledger_row(self) -> dict[str, Any]:
        requeue = self.manifest.kind == "requeue"
        duplicates, conflicts = self.repeat_counts.get(DUPLICATE, 0), self.repeat_counts.get(CONFLICT, 0)
        rows = sum(row["rows"] for row in self.by_file)
        reasons = {
            reason: self._sum("rows", reason)
            for reason in sorted({r["reason"] for r in self.by_file} - {None})
        }
        reasons |= {"conflict": conflicts} if conflicts else {}
        return {
            "batch": self.manifest.batch,
            "kind": self.manifest.kind,
            "files": len(self.manifest.files),
            "records": 0 if requeue else sum(row["records"] for row in self.by_file),
            "received": 0 if requeue else rows,
            "requeued": rows if requeue else 0,
            "quarantined": sum(reasons.values()),
            "duplicates": duplicates,
            "reasons": reasons,
            **self._accepted_facts(),
            **self._late(),
        }

    def _sum(self, name: str, reason: str | None) -> int:
        return sum(row[name] for row in self.by_file if row["reason"] == reason)

    def _totals(self) -> list[Column]:
        missing = [F.count_if(F.col(m).isNull()).alias(f"missing_{m}") for m in self.tables.stream.measures]
        records = F.count_if(F.col("source_item") == 0).alias("records")
        low, high = F.min("event_us").alias("low"), F.max("event_us").alias("high")
        return [F.count("*").alias("rows"), records, low, high, *missing]

    def _accepted_facts(self) -> dict[str, Any]:
        """Facts on accepted rows; counted anew only when some usable rows were repeats."""
        good = [row for row in self.by_file if row["reason"] is None]
        if self.repeat_counts:
            good = self.accepted.agg(*self._totals()).collect()
        high = max((row["high"] for row in good if row["high"] is not None), default=None)
        newest = [value for value in (self.before.newest_us, high) if value is not None]
        return {
            "accepted": sum(row["rows"] for row in good),
            "min_event_us": min((row["low"] for row in good if row["low"] is not None), default=None),
            "max_event_us": high,
            "newest_us": max(newest, default=None),
            "missing": {m: sum(row[f"missing_{m}"] for row in good) for m in self.tables.stream.measures},
        }

    def _late(self) -> dict[str, Any]:
        newest = {row["source_file"]: row["high"] for row in self.by_file if row["reason"] is None}
        rows = self.usable
        if self.manifest.kind == "requeue" or self.tables.stream.source.format == "parquet":
            # These do not come file by file: lines from quarantine are in no order, Spark cuts large Parquet files.
            rows = rows.repartition("source_file").sortWithinPartitions(*_ORIGIN)
        late: Lateness = lateness_of(rows, newest, self.before.newest_us)
        return {"late": late.late, "lateness": list(late.bins), "max_lateness_us": late.max_us}


def _side_by_side(*steps: Callable[[], None]) -> None:
    """Run steps at the same time: each is mostly Delta waiting for its own log."""
    with ThreadPoolExecutor(len(steps)) as pool:
        for done in [pool.submit(step) for step in steps]:
            done.result()

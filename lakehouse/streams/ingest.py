"""One ingest batch: a manifest's records to raw, quarantine and ledger, exactly once.

Raw and quarantine are appended first, the ledger last. A batch is finished when its ledger row is there; readers of
raw and quarantine look at finished batches only. Each append is skipped when it was already made, so a batch that
died anywhere is simply run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lakehouse.declare.stream import Stream
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.home.ledger import read_extent
from lakehouse.spark import tables
from lakehouse.streams.batch_stats import Counted, counted_of, nothing_counted, totals
from lakehouse.streams.buffered_batch import ORIGIN, REJECTED, HeldBatch
from lakehouse.streams.lateness import lateness_in_order, written_lateness_by_arrival
from lakehouse.streams.quarantine import requeued_lines
from lakehouse.streams.sources.fields import with_fields
from lakehouse.streams.sources.lines import NumberedLines, read_lines
from lakehouse.streams.sources.manifest import Manifest
from lakehouse.streams.sources.manifest_store import Landing
from lakehouse.streams.sources.messages import read_messages
from lakehouse.streams.sources.offsets import OffsetRange
from lakehouse.streams.sources.rows import typed_rows

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
        tables.side_by_side(
            lambda: tables.create_raw(self.spark, self.layout.raw(name), self.stream),
            lambda: tables.create_quarantine(self.spark, self.layout.quarantine(name)),
        )
        tables.create_ledger(self.spark, self.layout.ledger(name))
        return True

    def progress(self) -> Progress:
        """Return how far the ledger has come."""
        extent = read_extent(self.layout, self.stream.name)
        return Progress(extent.batch, extent.newest_us)


@dataclass(frozen=True)
class Batch:
    """The records of one manifest on their way."""

    tables: StreamTables
    manifest: Manifest
    landing: Landing
    before: Progress

    def commit(self) -> dict[str, Any]:
        """Append raw, quarantine and ledger; return the ledger row."""
        if self.manifest.kind == "lost":
            counted: Counted | None = self._taken_back()
        else:
            counted = self._passed_through() if self._passes_through else None
        if counted is None:
            held = HeldBatch(self)
            try:
                counted = held.append()
            finally:
                held.release()
        entry = self._ledger_row(counted)
        self._append_ledger(entry)
        crash_point("ingest.ledger-appended")
        return entry

    @cached_property
    def lines(self) -> NumberedLines:
        """The numbered lines of the batch."""
        spark, stream = self.tables.spark, self.tables.stream
        if self.manifest.kind == "requeue":
            return requeued_lines(spark, self.tables.layout, stream, self.landing, self.manifest)
        if self.manifest.kind == "kafka":
            return read_messages(spark, self.manifest.ranges, stream.source)
        return read_lines(spark, self.manifest.files, stream.source)

    @property
    def rows(self) -> DataFrame:
        """Every row of the batch, typed, with its reason for rejection."""
        frame, stream = self.lines.frame, self.tables.stream
        rows = typed_rows(with_fields(frame, stream, self.lines.layouts), stream)
        if self.manifest.kind != "requeue":
            return rows
        wanted = frame.select(*ORIGIN[:2], "items")
        taken = rows.join(wanted, ORIGIN[:2]).where(F.array_contains("items", F.col("source_item")))
        return taken.drop("items")

    @property
    def _passes_through(self) -> bool:
        """Whether rows can be written as they are read: none is compared with another, files are not cut."""
        source = self.tables.stream.source
        is_read = self.manifest.kind in ("files", "kafka")
        return is_read and not self.tables.stream.identity and source.format != "parquet"

    def _passed_through(self) -> Counted | None:
        """Append raw and quarantine, counting on the way; None when raw was appended before, so nothing was read."""
        crash_point("ingest.batch-parsed")
        seen = Observation()
        counted = self.rows.observe(seen, *totals(self.tables.stream, F.col("reason").isNull()))
        written = self.append_raw(counted.where(F.col("reason").isNull()))
        if written is None:
            return None
        found = seen.get
        reasons = self._reject() if found["rows"] > found["accepted"] else {}
        # Tasks take files in path order, and each writes one file of the table: read on, they are in processing order.
        in_order = self.manifest.kind == "files"
        late = (lateness_in_order if in_order else written_lateness_by_arrival)(
            written, self.before.newest_us
        )
        return counted_of(self.tables.stream, [found], reasons, 0, late)

    def _taken_back(self) -> Counted:
        """Remove what this batch wrote before its messages were given up; return that there are no rows."""
        name, batch = self.tables.stream.name, self.manifest.batch
        for table in (self.tables.layout.raw(name), self.tables.layout.quarantine(name)):
            tables.remove(self.tables.spark, table, f"batch = {batch}")
        return nothing_counted(self.tables.stream)

    @property
    def rejected(self) -> DataFrame:
        """The records of the batch that are refused, with their reasons."""
        # Spark pushes no filter through what it observes. Pushed to the lines, this one would hold the whole judgement,
        # every field cut from the line again at each mention: ten times the work of reading the batch.
        judged = self.rows.observe(Observation(), F.count(F.lit(1)).alias("rows"))
        return judged.where(F.col("reason").isNotNull()).select(*REJECTED)

    def _reject(self) -> dict[str, int]:
        bad = self.rejected.persist()
        try:
            reasons = {row["reason"]: row["count"] for row in bad.groupBy("reason").count().collect()}
            self.append_quarantine(bad)
        finally:
            bad.unpersist()
        return reasons

    def append_raw(self, rows: DataFrame) -> list[Path] | None:
        """Append accepted rows; return the files written, None when that was done before."""
        written = self._append(rows.drop("reason", "detail", "record"), "raw")
        crash_point("ingest.raw-appended")
        return written

    def append_quarantine(self, rejected: DataFrame) -> None:
        """Append rejected records."""
        self._append(rejected, "quarantine")
        crash_point("ingest.quarantine-appended")

    def _append(self, rows: DataFrame, table: str) -> list[Path] | None:
        name, batch = self.tables.stream.name, self.manifest.batch
        path = getattr(self.tables.layout, table)(name)
        numbered = rows.withColumn("batch", F.lit(batch).cast("bigint"))
        return tables.append_once(numbered, path, f"ingest-{name}", batch)

    def _append_ledger(self, entry: dict[str, Any]) -> None:
        name = self.tables.stream.name
        path = self.tables.layout.ledger(name)
        row = entry | {"committed_at": datetime.now(UTC)}
        tables.append_row(self.tables.spark, row, path, f"ingest-{name}", self.manifest.batch, "ledger")

    def _ledger_row(self, counted: Counted) -> dict[str, Any]:
        requeue = self.manifest.kind == "requeue"
        newest = [value for value in (self.before.newest_us, counted.high) if value is not None]
        return {
            "batch": self.manifest.batch,
            "kind": self.manifest.kind,
            "files": len(self.manifest.files),
            "records": 0 if requeue else counted.records,
            "received": 0 if requeue else counted.rows,
            "requeued": counted.rows if requeue else 0,
            "accepted": counted.accepted,
            "quarantined": sum(counted.reasons.values()),
            "duplicates": counted.duplicates,
            "reasons": dict(sorted(counted.reasons.items())),
            "missing": counted.missing,
            "min_event_us": counted.low,
            "max_event_us": counted.high,
            "newest_us": max(newest, default=None),
            "late": counted.lateness.late,
            "lateness": list(counted.lateness.bins),
            "max_lateness_us": counted.lateness.max_us,
            "schema_changes": list(self.manifest.schema_changes),
            "lost": {f"{each.topic}/{each.partition}": each.count for each in self._lost},
        }

    @property
    def _lost(self) -> tuple[OffsetRange, ...]:
        return self.manifest.ranges if self.manifest.kind == "lost" else ()

"""One ingest batch: a manifest's records to raw, quarantine and ledger, exactly once.

Order of commits: raw, quarantine, ledger. A batch is finished when its ledger row is there; readers of raw and
quarantine look at finished batches only. Each append is skipped when it was already made, so a batch that died
anywhere is simply run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakehouse.algorithms.ingest.duplicates import CONFLICT, DUPLICATE
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
from lakehouse.spark.sources.lines import read_lines
from lakehouse.spark.sources.rows import typed_rows

_ORIGIN = ["source_file", "source_line", "source_item"]


@dataclass(frozen=True)
class StreamTables:
    """The tables an ingest of one stream writes."""

    spark: SparkSession
    layout: Home
    stream: Stream

    def create(self) -> None:
        """Create those that are not there yet."""
        tables.create_raw(self.spark, self.layout.raw(self.stream.name), self.stream)
        tables.create_quarantine(self.spark, self.layout.quarantine(self.stream.name))
        tables.create_ledger(self.spark, self.layout.ledger(self.stream.name))

    def finished(self) -> tuple[int, int | None]:
        """Return the last finished batch (0 for none) and the newest event time accepted so far."""
        ledger = tables.read(self.spark, self.layout.ledger(self.stream.name))
        last, newest = ledger.agg(F.max("batch"), F.max("newest_us")).first() or (None, None)
        return int(last or 0), newest


@dataclass(frozen=True)
class Batch:
    """The records of one manifest on their way."""

    tables: StreamTables
    manifest: Manifest
    landing: Landing
    newest_before_us: int | None

    @cached_property
    def rows(self) -> DataFrame:
        """Every row of the batch, typed, with its reason for rejection; held until ``release``."""
        stream, spark = self.tables.stream, self.tables.spark
        if self.manifest.kind == "requeue":
            lines = requeued_lines(spark, self.tables.layout, stream, self.landing, self.manifest)
            wanted = lines.frame.select(*_ORIGIN[:2], "items")
            rows = typed_rows(with_fields(lines.frame.drop("items"), stream, lines.layouts), stream)
            rows = rows.join(wanted, _ORIGIN[:2]).where(F.array_contains("items", F.col("source_item"))).drop("items")
        else:
            lines = read_lines(spark, self.manifest.files, stream.source)
            rows = typed_rows(with_fields(lines.frame, stream, lines.layouts), stream)
        return rows.persist(StorageLevel.MEMORY_AND_DISK)

    @cached_property
    def usable(self) -> DataFrame:
        """Rows that are to be accepted unless they repeat one."""
        return self.rows.where(F.col("reason").isNull())

    @cached_property
    def repeats(self) -> DataFrame | None:
        """Verdicts on usable rows that repeat an accepted one, None for a stream without identity."""
        stream = self.tables.stream
        if not stream.identity:
            return None
        raw = tables.read(self.tables.spark, self.tables.layout.raw(stream.name))
        before = raw.where(F.col("batch") < self.manifest.batch)
        return verdicts_on(self.usable, before, stream).persist(StorageLevel.MEMORY_AND_DISK)

    @cached_property
    def accepted(self) -> DataFrame:
        """Rows for raw."""
        if self.repeats is None or self.repeats.isEmpty():
            return self.usable
        return self.usable.join(self.repeats.select(*_ORIGIN), _ORIGIN, "left_anti")

    @cached_property
    def rejected(self) -> DataFrame:
        """Records for quarantine, conflicts included."""
        bad = self.rows.where(F.col("reason").isNotNull()).select("reason", "detail", "record", *_ORIGIN)
        conflicts = self._conflicts()
        return bad if conflicts is None else bad.unionByName(conflicts)

    def _conflicts(self) -> DataFrame | None:
        if self.repeats is None:
            return None
        found = self.repeats.where(F.col("verdict") == CONFLICT).select(*_ORIGIN)
        if found.isEmpty():
            return None
        detail = f"same identity ({', '.join(self.tables.stream.identity)}) as an accepted row, other content"
        return (
            # Good rows do not carry their bytes along; the few that conflict fetch them from where they came.
            self._lines()
            .join(F.broadcast(found), _ORIGIN[:2])
            .select(F.lit("conflict").alias("reason"), F.lit(detail).alias("detail"), "record", *_ORIGIN)
        )

    def _lines(self) -> DataFrame:
        stream, spark = self.tables.stream, self.tables.spark
        if self.manifest.kind == "requeue":
            return requeued_lines(spark, self.tables.layout, stream, self.landing, self.manifest).frame
        return read_lines(spark, self.manifest.files, stream.source).frame

    def commit(self) -> dict[str, int]:
        """Append raw, quarantine and ledger; return the ledger row's counts."""
        layout, name, batch = self.tables.layout, self.tables.stream.name, self.manifest.batch
        entry = self._ledger_row()
        crash_point("ingest.batch-parsed")
        raw = self.accepted.drop("reason", "detail", "record").withColumn("batch", F.lit(batch).cast("bigint"))
        tables.append_once(raw, layout.raw(name), f"ingest-{name}", batch)
        crash_point("ingest.raw-appended")
        if entry["quarantined"]:
            rejected = self.rejected.withColumn("batch", F.lit(batch).cast("bigint"))
            tables.append_once(rejected, layout.quarantine(name), f"ingest-{name}", batch)
        crash_point("ingest.quarantine-appended")
        ledger = tables.read(self.tables.spark, layout.ledger(name)).schema
        row = self.tables.spark.createDataFrame([tuple(entry[field] for field in ledger.names[:-1])], ledger[:-1])
        tables.append_once(
            row.withColumn("committed_at", F.current_timestamp()), layout.ledger(name), f"ingest-{name}", batch
        )
        crash_point("ingest.ledger-appended")
        return {key: entry[key] for key in ("received", "requeued", "accepted", "quarantined", "duplicates", "late")}

    def release(self) -> None:
        """Let go of what was held in memory."""
        self.rows.unpersist()
        if self.repeats is not None:
            self.repeats.unpersist()

    def _ledger_row(self) -> dict[str, object]:
        late = lateness_of(self._in_order(), self.newest_before_us)
        duplicates, conflicts = self._repeat_counts()
        totals = self._accepted_totals()
        reasons = self._reasons() | ({"conflict": conflicts} if conflicts else {})
        quarantined = sum(reasons.values())
        rows = totals["accepted"] + quarantined + duplicates
        requeue = self.manifest.kind == "requeue"
        records = self.rows.select(*_ORIGIN[:2]).distinct().count() if self.tables.stream.source.explode else rows
        return {
            "batch": self.manifest.batch,
            "kind": self.manifest.kind,
            "files": len(self.manifest.files),
            "records": 0 if requeue else records,
            "received": 0 if requeue else rows,
            "requeued": rows if requeue else 0,
            "quarantined": quarantined,
            "duplicates": duplicates,
            "reasons": reasons,
            **totals,
            **self._late(late, totals["max_event_us"]),
        }

    def _in_order(self) -> DataFrame:
        if self.manifest.kind == "requeue":
            return self.usable.repartition(1).sortWithinPartitions(*_ORIGIN)
        return self.usable

    def _late(self, late: Lateness, max_event_us: int | None) -> dict[str, object]:
        newest = [value for value in (self.newest_before_us, max_event_us) if value is not None]
        return {
            "late": late.late,
            "lateness": list(late.bins),
            "max_lateness_us": late.max_us,
            "newest_us": max(newest, default=None),
        }

    def _reasons(self) -> dict[str, int]:
        counted = self.rows.where(F.col("reason").isNotNull()).groupBy("reason").count().collect()
        return {reason: count for reason, count in sorted(counted)}

    def _repeat_counts(self) -> tuple[int, int]:
        if self.repeats is None:
            return 0, 0
        found = {row["verdict"]: row["count"] for row in self.repeats.groupBy("verdict").count().collect()}
        return found.get(DUPLICATE, 0), found.get(CONFLICT, 0)

    def _accepted_totals(self) -> dict[str, object]:
        measures = self.tables.stream.measures
        missing = [F.count_if(F.col(name).isNull()).alias(f"missing_{name}") for name in measures]
        totals: Row = self.accepted.agg(
            F.count("*").alias("accepted"), F.min("event_us").alias("low"), F.max("event_us").alias("high"), *missing
        ).first()
        return {
            "accepted": totals["accepted"],
            "min_event_us": totals["low"],
            "max_event_us": totals["high"],
            "missing": {name: totals[f"missing_{name}"] for name in measures},
        }

"""Verdicts on an ingest batch whose rows are buffered, since they are read more than once before they are written.

Rows with an identity are compared before any is accepted; requeued lines and rows of cut files must be put in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lakehouse.algorithms.ingest.duplicates import CONFLICT, DUPLICATE
from lakehouse.algorithms.ingest.lateness import Lateness
from lakehouse.spark import tables
from lakehouse.streams.batch_records import ORIGIN, REJECTED, BatchRecords
from lakehouse.streams.batch_stats import BatchStats, combined_stats, stat_columns
from lakehouse.streams.duplicates import verdicts_on
from lakehouse.streams.lateness import lateness_by_arrival, lateness_of
from lakehouse.streams.sources.messages import with_message


@dataclass(frozen=True)
class BufferedBatch:
    """The verdicts on a batch's records: which rows are accepted, which records are rejected, and their counts."""

    records: BatchRecords

    def release(self) -> None:
        """Free the buffered rows; what was derived from them goes first, or Spark would plan it anew."""
        for name in ("repeats", "rows"):
            frame = self.__dict__.get(name)
            if frame is not None:
                frame.unpersist()

    @cached_property
    def rows(self) -> DataFrame:
        """Every row of the batch."""
        return self.records.rows.persist(StorageLevel.MEMORY_AND_DISK)

    @property
    def usable(self) -> DataFrame:
        """Rows that are to be accepted unless they repeat one."""
        return self.rows.where(F.col("reason").isNull())

    @cached_property
    def stats(self) -> BatchStats:
        """The counts of the batch; the first to ask reads and parses it."""
        reasons: dict[str, int] = {}
        for row in self.by_file:
            if row["reason"] is not None:
                reasons[row["reason"]] = reasons.get(row["reason"], 0) + row["rows"]
        conflicts = self.repeat_counts.get(CONFLICT, 0)
        reasons |= {"conflict": conflicts} if conflicts else {}
        # Accepted rows are counted again only when some usable rows were repeats.
        good = (
            self.accepted.agg(*stat_columns(self.records.stream, F.lit(True))).collect()
            if self.repeat_counts
            else None
        )
        found = combined_stats(
            self.records.stream,
            good or self._good,
            reasons,
            self.repeat_counts.get(DUPLICATE, 0),
            self._late(),
        )
        rows, records = (sum(row[name] for row in self.by_file) for name in ("rows", "records"))
        return replace(found, rows=rows, records=records)

    @cached_property
    def by_file(self) -> list[Row]:
        """Counts and times per file and reason: the one pass that also reads and parses the batch."""
        sums = stat_columns(self.records.stream, F.lit(True))
        return self.rows.groupBy("source_file", "reason").agg(*sums).collect()

    @cached_property
    def repeats(self) -> DataFrame | None:
        """Verdicts on usable rows that repeat an accepted one, None for a stream without identity."""
        good = self._good
        if not self.records.stream.identity or not good:
            return None
        earlier = self._earlier() if self.records.before.batch else None
        times = min(row["low"] for row in good), max(row["high"] for row in good)
        found = verdicts_on(self.usable, earlier, self.records.stream, times)
        return found.persist(StorageLevel.MEMORY_AND_DISK)

    @cached_property
    def repeat_counts(self) -> dict[int, int]:
        """How many duplicates and conflicts there are."""
        if self.repeats is None:
            return {}
        return {row["verdict"]: row["count"] for row in self.repeats.groupBy("verdict").count().collect()}

    @property
    def accepted(self) -> DataFrame:
        """Rows for raw."""
        if self.repeats is None or not self.repeat_counts:
            return self.usable
        return self.usable.join(self.repeats.select(*ORIGIN), ORIGIN, "left_anti")

    @property
    def rejected(self) -> DataFrame:
        """Records for quarantine, conflicts included."""
        bad = self.rows.where(F.col("reason").isNotNull()).select(*REJECTED)
        return bad.unionByName(self._conflicts()) if self.repeat_counts.get(CONFLICT) else bad

    @property
    def _good(self) -> list[Row]:
        return [row for row in self.by_file if row["reason"] is None]

    def _earlier(self) -> DataFrame:
        target = self.records.tables
        raw = tables.read(target.spark, target.layout.raw(target.stream.name))
        return raw.where(F.col("batch") < self.records.manifest.batch)

    def _conflicts(self) -> DataFrame:
        assert self.repeats is not None
        found = self.repeats.where(F.col("verdict") == CONFLICT).select(*ORIGIN)
        detail = (
            f"same identity ({', '.join(self.records.stream.identity)}) as an accepted row, other content"
        )
        # Usable rows do not hold the bytes of their record; the few that conflict are joined with the lines again.
        lines = with_message(self.records.lines.frame).join(F.broadcast(found), ORIGIN[:2])
        return lines.select(
            F.lit("conflict").alias("reason"), F.lit(detail).alias("detail"), "record", *ORIGIN, "message"
        )

    def _late(self) -> Lateness:
        newest = {row["source_file"]: row["high"] for row in self._good}
        rows = self.usable
        if self.records.stream.source.kind == "kafka":
            return lateness_by_arrival(rows, self.records.before.newest_us)
        if self.records.manifest.kind == "requeue" or self.records.stream.source.format == "parquet":
            # These rows are in no order: lines come from quarantine, and Spark cuts large Parquet files.
            rows = rows.repartition("source_file").sortWithinPartitions(*ORIGIN)
        return lateness_of(rows, newest, self.records.before.newest_us)

"""Verdicts on an ingest batch whose rows are buffered, because they are read more than once before they are written.

Rows with an identity are compared before any is accepted; requeued lines must be put in order. One pass reads and
parses the batch, buffers its rows and returns counts and hashes to the driver; later passes read the buffer. If rows
are compared, lines are buffered too: a row that turns out to be a conflict goes to quarantine with the bytes that
were judged, whatever its file holds by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.algorithms.ingest.duplicates import CONFLICT
from lakehouse.algorithms.ingest.lateness import Lateness
from lakehouse.home.identity_index import Hashes
from lakehouse.streams.batch_records import ORIGIN, REJECTED, BatchRecords
from lakehouse.streams.batch_stats import BatchStats, counted_stats, is_missing
from lakehouse.streams.duplicates import Hashed, conflict_detail, count_repeats, find_repeats
from lakehouse.streams.identities import compared, hash_column
from lakehouse.streams.lateness import PLACES, lateness_of
from lakehouse.streams.sources.messages import with_message

_HASH = "identity_hash"


@dataclass(frozen=True)
class BufferedBatch:
    """The verdicts on a batch's records: which rows are accepted, which records are rejected, and their counts."""

    records: BatchRecords

    def release(self) -> None:
        """Free the buffered rows."""
        if "rows" in self.__dict__:
            self.rows.unpersist()
            self.records.lines.frame.unpersist()

    @cached_property
    def rows(self) -> DataFrame:
        """Every row of the batch, with a number and, if it is usable, the hash of its identity."""
        if self.records.stream.identity:
            # Spark recognises the frame by its plan wherever it is read.
            self.records.lines.frame.persist(StorageLevel.MEMORY_AND_DISK)
        rows = self.records.rows.withColumn("row_id", F.monotonically_increasing_id())
        if self.records.stream.identity:
            usable = F.col("reason").isNull()
            rows = rows.withColumn(_HASH, F.when(usable, hash_column(self.records.stream)))
        return rows.persist(StorageLevel.MEMORY_AND_DISK)

    @cached_property
    def counted(self) -> pa.Table:
        """The counted values of each row, some 30 bytes; the first call reads and parses the batch."""
        stream, rows = self.records.stream, self.rows
        places = [] if self._order is None else PLACES
        missing = (is_missing(stream, measure).alias(f"missing_{measure}") for measure in stream.measures)
        is_record = (F.col("source_item") == 0).alias("is_record")
        named = ["row_id", "reason", "event_us", *places, *([_HASH] if stream.identity else [])]
        return rows.select(*named, is_record, *missing).toArrow()

    @cached_property
    def stats(self) -> BatchStats:
        """The counts of the batch."""
        usable = self.counted.filter(self.counted["reason"].is_null())
        late = self._lateness(usable)
        accepted = usable
        if self.repeats is not None:
            accepted = usable.filter(pc.invert(pc.is_in(usable["row_id"], self.repeats["row_id"])))
        counts = count_repeats(self.repeats)
        return counted_stats(self.records.stream, self.counted, accepted, counts, late)

    @cached_property
    def repeats(self) -> pa.Table | None:
        """Usable rows that repeat an accepted one; None if there are none."""
        if not self.records.stream.identity:
            return None
        hashed = self.counted.filter(self.counted[_HASH].is_valid())
        if not hashed.num_rows:
            return None
        ends = pc.min_max(hashed["event_us"]).as_py()
        hashes = hashed[_HASH].to_numpy().view(np.uint64)
        found = Hashed(self.records.manifest.batch, hashes, ends["min"], ends["max"])
        return find_repeats(self.records.tables, found, self._rows_of)

    @property
    def accepted(self) -> DataFrame:
        """Rows for raw."""
        usable = self.rows.where(F.col("reason").isNull())
        if self.repeats is not None:
            usable = usable.join(self._local(self.repeats, "row_id"), "row_id", "left_anti")
        return usable.drop("row_id", _HASH)

    @property
    def rejected(self) -> DataFrame:
        """Records for quarantine, conflicts included."""
        bad = self.rows.where(F.col("reason").isNotNull()).select(*REJECTED)
        return bad.unionByName(self._conflicts(self.repeats)) if self.stats.reasons.get("conflict") else bad

    def _rows_of(self, hashes: Hashes) -> pa.Table:
        wanted = self._local(pa.table({_HASH: hashes.view(np.int64)}), _HASH)
        named = dict.fromkeys(["row_id", *compared(self.records.stream)])
        return self.rows.join(wanted, _HASH, "left_semi").select(*named).toArrow()

    def _local(self, table: pa.Table, *names: str) -> DataFrame:
        # In one piece: Spark stops reading a table at its first empty piece behind another.
        whole = table.select(names).combine_chunks()
        return F.broadcast(self.records.tables.spark.createDataFrame(whole))

    def _conflicts(self, repeats: pa.Table) -> DataFrame:
        found = repeats.filter(pc.equal(repeats["verdict"], CONFLICT))
        detail = conflict_detail(self.records.stream)
        # Usable rows do not hold the bytes of their record; the few that conflict are joined with the buffered lines.
        lines = with_message(self.records.lines.frame.where(F.col("record").isNotNull())).join(
            self._local(found, *ORIGIN), ORIGIN[:2]
        )
        return lines.select(
            F.lit("conflict").alias("reason"), F.lit(detail).alias("detail"), "record", *ORIGIN, "message"
        )

    @property
    def _order(self) -> bool | None:
        """Whether Spark returns rows in processing order (None), or they are sorted by arrival or by place."""
        if self.records.stream.source.kind == "kafka":
            return True
        # Lines of quarantine are in no order.
        return False if self.records.manifest.kind == "requeue" else None

    def _lateness(self, usable: pa.Table) -> Lateness:
        return lateness_of(usable, self.records.before.newest_us, self._order)

"""One ingest batch: the records of a manifest are written to raw, quarantine and ledger, exactly once.

    records (batch_records) -> verdicts (small_batch, BufferedBatch, or row by row while they are written)
                            -> raw, quarantine, ledger

Raw and quarantine are appended first, the ledger last. A batch is finished when its ledger row exists; readers of raw
and quarantine use finished batches only. An append that was already made is skipped, so a batch that died anywhere is
simply run again; ``as_held`` counts the stored rows if its source has changed by then.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lakehouse.algorithms.ingest.confirmed import confirmed
from lakehouse.algorithms.ingest.duplicates import CONFLICT
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.identity_index import Hashes
from lakehouse.home.table_commits import Parts
from lakehouse.spark import tables
from lakehouse.streams import unchecked
from lakehouse.streams.batch_records import (
    ORIGIN,
    PLACES,
    REJECTED,
    BatchRecords,
    StreamTables,
    processing_order,
)
from lakehouse.streams.batch_stats import (
    BatchStats,
    as_held,
    counted_stats,
    empty_stats,
    is_missing,
    lateness_of,
    observed_columns,
    observed_stats,
    written_lateness,
)
from lakehouse.streams.duplicates import (
    Hashed,
    conflict_detail,
    count_repeats,
    find_repeats,
)
from lakehouse.streams.identities import compared, hash_column
from lakehouse.streams.overlooked import overlooked
from lakehouse.streams.small_batch import SmallBatch, judged_here
from lakehouse.streams.sources.manifest import SET_ASIDE, SPLIT
from lakehouse.streams.sources.numbered import lines_in

log = logging.getLogger(__name__)
COUNTS = ("received", "requeued", "accepted", "quarantined", "duplicates", "late")
_HASH = "identity_hash"


def writer_of(stream: str) -> str:
    """Return the writer's name with which the ingest of a stream marks its appends."""
    return f"ingest-{stream}"


@dataclass(frozen=True)
class BatchTables:
    """The tables of a stream, as one batch writes them: an append that was already made is not made again."""

    target: StreamTables
    batch: int
    # Tables that an earlier attempt has appended to.
    had: set[str] = field(default_factory=set)

    def append_raw(self, rows: DataFrame | Parts) -> list[Path] | None:
        """Append accepted rows; return the files written, None if that was done before."""
        if isinstance(rows, DataFrame):
            rows = rows.drop("reason", "detail", "record", "message")
        written = self._append(rows, "raw")
        crash_point("ingest.raw-appended")
        return written

    def append_quarantine(self, rejected: DataFrame | pa.Table) -> None:
        """Append rejected records."""
        self._append(rejected, "quarantine")
        crash_point("ingest.quarantine-appended")

    def has_quarantine(self) -> bool:
        """Whether an earlier attempt has appended rejected records, which may no longer be readable."""
        name = self.target.stream.name
        return tables.is_appended(self.target.layout.quarantine(name), writer_of(name), self.batch)

    def append_ledger(self, entry: dict[str, Any]) -> None:
        """Append the ledger row, which finishes the batch."""
        name = self.target.stream.name
        row = entry | {"committed_at": datetime.now(UTC)}
        path = self.target.layout.ledger(name)
        tables.append_row(row, path, writer_of(name), self.batch, "ledger")
        crash_point("ingest.ledger-appended")

    def take_back(self) -> None:
        """Remove the rows that the batch appended to raw and quarantine."""
        layout, name = self.target.layout, self.target.stream.name
        for table in (layout.raw(name), layout.quarantine(name)):
            tables.remove(self.target.spark, table, f"batch = {self.batch}")
        unchecked.take_back(layout, name, self.batch)

    def _append(self, rows: DataFrame | Parts | pa.Table, table: str) -> list[Path] | None:
        name = self.target.stream.name
        path = getattr(self.target.layout, table)(name)
        if isinstance(rows, pa.Table):
            arrow = rows.append_column("batch", pa.repeat(pa.scalar(self.batch), rows.num_rows))
            written = tables.append_arrow_once(arrow, path, writer_of(name), self.batch)
        elif isinstance(rows, Parts):
            numbered_parts = rows.with_number("batch", self.batch)
            written = tables.append_parts_once(numbered_parts, path, writer_of(name), self.batch)
        else:
            numbered = rows.withColumn("batch", F.lit(self.batch).cast("bigint"))
            written = tables.append_once(numbered, path, writer_of(name), self.batch)
        if written is None:
            self.had.add(table)
        return written


def commit(records: BatchRecords) -> dict[str, Any]:
    """Append a batch's records to raw, quarantine and ledger; return the ledger row."""
    target = BatchTables(records.tables, records.manifest.batch)
    stats = _written(records, target)
    stats = as_held(records, stats) if target.had or not stats.is_balanced else stats
    entry = _ledger_row(records, stats)
    doubtful = unchecked.note_unchecked(
        records.tables.layout, records.stream, records.manifest.batch, stats.low
    )
    if doubtful:
        crash_point("ingest.unchecked-appended")
    target.append_ledger(entry)
    if doubtful:
        log.warning(
            "stream %s: %d rows of batch %d are older than identities are known for, so they may repeat others",
            *(records.stream.name, doubtful, records.manifest.batch),
        )
    return entry


def _written(records: BatchRecords, target: BatchTables) -> BatchStats:
    """Append raw and quarantine; return the counts."""
    if records.manifest.kind in ("lost", SPLIT, SET_ASIDE):
        # The batch may have written some of its rows before it was given up.
        target.take_back()
        crash_point("split.rows-removed")
        return empty_stats(records.stream)
    if judged := judged_here(records):
        return _buffered(judged, target)
    stats = _streamed(records, target) if records.can_stream else None
    return stats or _buffered(BufferedBatch(records), target)


def _streamed(records: BatchRecords, target: BatchTables) -> BatchStats | None:
    """Append raw and quarantine, counting meanwhile; None if raw was appended before, so that nothing was read."""
    crash_point("ingest.batch-parsed")
    rows = records.rows
    seen, is_good = Observation(), F.col("reason").isNull()
    stats = rows.observe(seen, *observed_columns(records.stream, is_good))
    written = target.append_raw(stats.where(is_good))
    if written is None:
        return None
    found = seen.get
    reasons = _reject(records, target, written) if found["rows"] > found["accepted"] else {}
    return observed_stats(records.stream, found, reasons, written, written_lateness(records, written))


def _reject(records: BatchRecords, target: BatchTables, written: list[Path]) -> dict[str, int]:
    """Append quarantine, using the files ``written`` to raw; return the number of records of each reason."""
    rejected = records.rejected_beside(lines_in(written)).persist()
    try:
        reasons = {row["reason"]: row["count"] for row in rejected.groupBy("reason").count().collect()}
        target.append_quarantine(rejected)
    finally:
        rejected.unpersist()
    return reasons


def _buffered(judged: SmallBatch | BufferedBatch, target: BatchTables) -> BatchStats:
    """Append raw and quarantine side by side, after the rows have verdicts; return the counts."""
    try:
        stats = judged.stats
        crash_point("ingest.batch-parsed")
        is_quarantine = stats.reasons or target.has_quarantine()
        steps = [lambda: target.append_quarantine(judged.rejected)] if is_quarantine else []
        tables.side_by_side(lambda: target.append_raw(judged.accepted), *steps)
        return stats
    finally:
        judged.release()


def _ledger_row(records: BatchRecords, stats: BatchStats) -> dict[str, Any]:
    manifest, requeue = records.manifest, records.manifest.kind == "requeue"
    lost = manifest.ranges if manifest.kind == "lost" else ()
    before, stream = records.before, records.stream
    newest = [value for value in (before.newest_us, stats.high) if value is not None]
    known = (before.confirmed_us, before.reached_us)
    least_us = stream.event_time_bounds[0]
    return {
        "batch": manifest.batch,
        "kind": manifest.kind,
        "files": 0 if manifest.kind == SET_ASIDE else len(manifest.files),
        "records": 0 if requeue else stats.records,
        "received": 0 if requeue else stats.rows,
        "requeued": stats.rows if requeue else 0,
        "accepted": stats.accepted,
        "quarantined": sum(stats.reasons.values()),
        "duplicates": stats.duplicates,
        "reasons": dict(sorted(stats.reasons.items())),
        "missing": stats.missing,
        "min_event_us": stats.low,
        "max_event_us": stats.high,
        "newest_us": max(newest, default=None),
        "reached_us": before.reached_us if stats.reached is None else stats.reached,
        "confirmed_us": confirmed(known, stats.reached, stats.accepted, stream.step_us, least_us),
        "late": stats.lateness.late,
        "lateness": list(stats.lateness.bins),
        "max_lateness_us": stats.lateness.max_us,
        "schema_changes": [*manifest.schema_changes, *overlooked(records, stats)],
        "repeated_files": [str(each) for each in manifest.repeats],
        "lost": {f"{each.topic}/{each.partition}": each.count for each in lost},
    }


@dataclass(frozen=True)
class BufferedBatch:
    """The verdicts on a batch whose rows are buffered, because they are read more than once before they are written.

    Rows with an identity are compared before any is accepted; requeued lines must be put in order. One pass reads and
    parses the batch, buffers its rows and returns counts and hashes to the driver; later passes read the buffer. If
    rows are compared, they hold their records: a row that turns out to be a conflict goes to quarantine with the bytes
    that were judged, whatever its file holds by then.
    """

    records: BatchRecords

    def release(self) -> None:
        """Free the buffered rows."""
        if "rows" in self.__dict__:
            self.rows.unpersist()

    @cached_property
    def rows(self) -> DataFrame:
        """Every row of the batch, with a number and, if it is usable, the hash of its identity."""
        rows = self.records.rows.withColumn("row_id", F.monotonically_increasing_id())
        if self.records.stream.identity:
            usable = F.col("reason").isNull()
            rows = rows.withColumn(_HASH, F.when(usable, hash_column(self.records.stream)))
        return rows.persist(StorageLevel.MEMORY_AND_DISK)

    @cached_property
    def counted(self) -> pa.Table:
        """The counted values of each row, some 30 bytes; the first call reads and parses the batch."""
        stream, rows = self.records.stream, self.rows
        places = PLACES if self._is_out_of_order else PLACES[:1]
        file = F.xxhash64("source_file").alias("file")
        missing = (is_missing(stream, name).alias(f"missing_{name}") for name in stream.all_columns)
        is_record = (F.col("source_item") == 0).alias("is_record")
        named: list[Any] = [
            "row_id",
            "reason",
            "event_us",
            file,
            *places,
            *([_HASH] if stream.identity else []),
        ]
        return rows.select(*named, is_record, *missing).toArrow()

    @cached_property
    def stats(self) -> BatchStats:
        """The counts of the batch."""
        usable = self.counted.filter(self.counted["reason"].is_null())
        accepted = usable
        if self.repeats is not None:
            accepted = usable.filter(pc.invert(pc.is_in(usable["row_id"], self.repeats["row_id"])))
        ordered = accepted.take(pa.array(processing_order(accepted))) if self._is_out_of_order else accepted
        late = lateness_of(ordered, self.records.before.newest_us)
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
        return self.rows.join(self._local(found, "row_id"), "row_id").select(
            F.lit("conflict").alias("reason"), F.lit(detail).alias("detail"), "record", *ORIGIN, "message"
        )

    @property
    def _is_out_of_order(self) -> bool:
        """Whether Spark returns the rows of a file in no order, as those of quarantine."""
        return self.records.manifest.kind == "requeue"

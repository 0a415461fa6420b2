"""One ingest batch: the records of a manifest are written to raw, quarantine and ledger, exactly once.

    records (batch_records) -> verdicts (small_batch, buffered_batch, or row by row while they are written)
                            -> raw, quarantine, ledger

Raw and quarantine are appended first, the ledger last. A batch is finished when its ledger row exists; readers of raw
and quarantine use finished batches only. An append that was already made is skipped, so a batch that died anywhere is
simply run again; held_batch counts the stored rows if its source has changed by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lakehouse.home.crashpoint import crash_point
from lakehouse.home.table_commits import Parts
from lakehouse.spark import tables
from lakehouse.streams.batch_records import BatchRecords, StreamTables
from lakehouse.streams.batch_stats import BatchStats, empty_stats, observed_columns, observed_stats
from lakehouse.streams.buffered_batch import BufferedBatch
from lakehouse.streams.held_batch import as_held
from lakehouse.streams.lateness import written_lateness
from lakehouse.streams.small_batch import SmallBatch, judged_here
from lakehouse.streams.sources.line_set import lines_in
from lakehouse.streams.sources.manifest import SET_ASIDE, SPLIT

COUNTS = ("received", "requeued", "accepted", "quarantined", "duplicates", "late")


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
    entry = _ledger_row(records, as_held(records, stats) if target.had or not stats.is_balanced else stats)
    target.append_ledger(entry)
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
    return observed_stats(records.stream, found, reasons, written_lateness(records, written))


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
    newest = [value for value in (records.before.newest_us, stats.high) if value is not None]
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
        "late": stats.lateness.late,
        "lateness": list(stats.lateness.bins),
        "max_lateness_us": stats.lateness.max_us,
        "schema_changes": list(manifest.schema_changes),
        "lost": {f"{each.topic}/{each.partition}": each.count for each in lost},
    }

"""One ingest batch: the records of a manifest are written to raw, quarantine and ledger, exactly once.

    jobs of the engine (batch_jobs) -> parts of three tables, counts -> commits: raw, quarantine; profile; ledger

Raw and quarantine are committed first, then the profile, the ledger last. A batch is finished when its ledger row
exists; readers of the others use finished batches only. A commit that was already made is skipped, so a batch that died
anywhere is simply run again; ``as_held`` counts the stored rows if its source has changed by then.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.ingest.confirmed import confirmed
from lakehouse.algorithms.ingest.lateness import Lateness
from lakehouse.engine import engine_of
from lakehouse.engine.parts import commit_entries, sink_of
from lakehouse.engine.rewriting import remove_rows
from lakehouse.ingest.batch_jobs import JudgedBatch, judged_batch
from lakehouse.ingest.batch_records import BatchRecords, StreamTables
from lakehouse.ingest.batch_stats import BatchStats, as_held, empty_stats, is_by_arrival, lateness_of
from lakehouse.ingest.identities import unchecked
from lakehouse.ingest.overlooked import overlooked
from lakehouse.ingest.profile_parts import day_entries
from lakehouse.ingest.sources.manifest import SET_ASIDE, SPLIT
from lakehouse.spark import tables
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.doubtful import AMBIGUOUS
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import files_between, read_parts
from lakehouse.storage.tables.tables_place import place_at

log = logging.getLogger(__name__)
COUNTS = ("received", "requeued", "accepted", "quarantined", "duplicates", "revised", "filtered", "late")


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

    def commit_parts(self, entries: pa.Table, table: str) -> None:
        """Append parts of raw or quarantine that were written."""
        name = self.target.stream.name
        path = getattr(self.target.layout, table)(name)
        if commit_entries(path, entries, (writer_of(name), self.batch)) is None:
            self.had.add(table)
        crash_point(f"ingest.{table}-appended")

    def has_quarantine(self) -> bool:
        """True if an earlier attempt has appended rejected records, which may no longer be readable."""
        name = self.target.stream.name
        return tables.is_appended(self.target.layout.quarantine(name), writer_of(name), self.batch)

    def commit_profile(self, judged: JudgedBatch, lateness: Lateness) -> None:
        """Append what the batch adds to the profile, with its late rows and, of records that are new, the rejected."""
        name = self.target.stream.name
        table = self.target.layout.profile(name)
        of_days = day_entries(sink_of(table), self.batch, dict(lateness.days), judged.rejected)
        commit_entries(table, pa.concat_tables([judged.profile, of_days]), (writer_of(name), self.batch))
        crash_point("ingest.profile-appended")

    def append_ledger(self, entry: dict[str, Any]) -> None:
        """Append the ledger row, which finishes the batch."""
        name = self.target.stream.name
        row = entry | {"committed_at": datetime.now(UTC)}
        path = self.target.layout.ledger(name)
        tables.append_row(row, path, writer_of(name), self.batch)
        crash_point("ingest.ledger-appended")

    def replace_revised(self, entries: pa.Table) -> None:
        """Write which rows the batch revises, in the place of what an earlier attempt wrote, until raw has its rows.

        So both are of one attempt, whatever became of the source between two.
        """
        layout, name = self.target.layout, self.target.stream.name
        if self.target.stream.revisions is None:
            return
        if not tables.is_appended(layout.raw(name), writer_of(name), self.batch):
            self._remove(layout.revised(name), "revised_in")
            if entries.num_rows:
                commit_entries(layout.revised(name), entries)
                crash_point("ingest.revised-written")

    def take_back(self) -> None:
        """Remove the rows that the batch appended to raw and quarantine, and what says which it revises."""
        layout, name = self.target.layout, self.target.stream.name
        self._remove(layout.revised(name), "revised_in")
        for table in (layout.raw, layout.quarantine, layout.unchecked, layout.profile):
            self._remove(table(name), "batch")

    def _remove(self, table: Location, column: str) -> None:
        """Remove the batch's rows from a table, whose column has its number."""
        own = (column, self.batch, self.batch)
        if files_between(table, own):
            step = f"take back batch {self.batch} of {self.target.stream.name}"
            gone = _OfBatch(self.batch, (column,))
            remove_rows(engine_of(self.target.spark), self.target.layout, table, gone, own, step)


@dataclass(frozen=True)
class _OfBatch:
    """Says that the rows of one batch go."""

    batch: int
    columns: tuple[str]

    def __call__(self, rows: pa.Table) -> pa.Array:
        return pc.equal(rows[self.columns[0]], self.batch)


def commit(records: BatchRecords) -> dict[str, Any]:
    """Append a batch's records to raw, quarantine and ledger; return the ledger row."""
    target = BatchTables(records.tables, records.manifest.batch)
    stats, judged = _written(records, target)
    stats = as_held(records, stats) if target.had or not stats.is_balanced else stats
    if judged:
        target.commit_profile(judged, stats.lateness)
    entry = _ledger_row(records, stats)
    doubtful = unchecked.note_unchecked(
        *(engine_of(records.tables.spark), records.tables.layout, records.stream),
        *(records.manifest.batch, stats.low),
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


def _written(records: BatchRecords, target: BatchTables) -> tuple[BatchStats, JudgedBatch | None]:
    """Append raw and quarantine; return the counts, and what was judged."""
    layout, name, manifest = records.tables.layout, records.stream.name, records.manifest
    if manifest.kind in ("lost", SPLIT, SET_ASIDE):
        # The batch may have written some of its rows before it was given up; one that gives up records never did.
        if not manifest.closes_records:
            target.take_back()
        crash_point("split.rows-removed")
        unchecked.note_ambiguous(layout, name, manifest.batch, (), manifest.closes(AMBIGUOUS))
        return empty_stats(records.stream), None
    judged = judged_batch(records)
    crash_point("ingest.batch-parsed")
    unchecked.note_ambiguous(layout, name, manifest.batch, judged.ambiguous, manifest.closes(AMBIGUOUS))
    if judged.ambiguous:
        crash_point("ingest.ambiguous-appended")
    target.replace_revised(judged.revised)
    is_quarantine = judged.stats.reasons or target.has_quarantine()
    steps: list[Callable[[], Any]] = []
    if is_quarantine:
        steps.append(lambda: target.commit_parts(judged.quarantine, "quarantine"))
    steps.append(lambda: target.commit_parts(judged.raw, "raw"))
    if judged.tasks < 2 or not is_by_arrival(records):
        tables.side_by_side(*steps)
        return judged.stats, judged
    parts = [place_at(path) for path in judged.raw["path"].to_pylist()]
    lateness = tables.side_by_side(*steps, lambda: lateness_of(records, judged.stats, parts))[-1]
    return replace(judged.stats, lateness=lateness), judged


def _revised(records: BatchRecords) -> int:
    """Return how many accepted rows the batch revises, its own among them."""
    if records.stream.revisions is None:
        return 0
    batch, table = records.manifest.batch, records.tables.layout.revised(records.stream.name)
    return sum(part.num_rows for part in read_parts(table, ("revised_in",), ("revised_in", batch, batch)))


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
        "revised": _revised(records),
        "filtered": stats.filtered,
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

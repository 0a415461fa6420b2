"""One ingest batch as jobs of the engine: one, and a second where rows that are compared repeat others.

Rows stay in tasks. What comes back are the parts that tasks wrote, to be committed, and counts.
"""

import json
from dataclasses import dataclass
from functools import partial, reduce
from operator import add

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.engine import engine_of
from lakehouse.engine.contract import Engine
from lakehouse.engine.parts import ENTRIES, sink_of
from lakehouse.ingest.aside import delete_aside, read_aside
from lakehouse.ingest.batch_parts import (
    ACCEPTED,
    AMBIGUOUS_RANGES,
    KEPT,
    OUTPUTS,
    PROFILE,
    QUARANTINE,
    RAW,
    RECORDS,
    REJECTED,
    REVISED,
    VERDICT,
    Output,
    Reading,
    Records,
    read_item,
)
from lakehouse.ingest.batch_records import BatchRecords
from lakehouse.ingest.batch_stats import BatchStats
from lakehouse.ingest.file_records import FileRecords
from lakehouse.ingest.identities.batch_identities import (
    BUCKET,
    HASHED,
    HASHES,
    REPEATED,
    REPEATS,
    Comparing,
    hashed_item,
    judged_bucket,
    without_repeats,
)
from lakehouse.ingest.identities.duplicates import Accepted
from lakehouse.ingest.identities.stored_identities import open_index
from lakehouse.ingest.identities.unchecked import Range, joined_by_day
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.part_counts import AcceptedCounts, RecordCounts
from lakehouse.ingest.requeued_records import requeued_records
from lakehouse.ingest.sources.messages import MessageRecords
from lakehouse.spark import tables
from lakehouse.storage.identity_copies import copied
from lakehouse.storage.identity_index import IdentityIndex, Run

_PARTS = pa.list_(pa.struct({"path": pa.string(), "rows": pa.int64()}))


@dataclass(frozen=True)
class JudgedBatch:
    """Judged batch to commit: entries of raw, quarantine, profile and revised, ranges of ambiguous times, its counts.

    ``rejected``: rejected records by day and reason; ``tasks``: how many of them have accepted rows; if there are
    several, lateness is that inside each.
    """

    raw: pa.Table
    quarantine: pa.Table
    profile: pa.Table
    revised: pa.Table
    ambiguous: list[Range]
    rejected: dict[int, dict[str, int]]
    stats: BatchStats
    tasks: int


def judged_batch(records: BatchRecords) -> JudgedBatch:
    """Read a batch and write parts of raw and quarantine, which are not committed yet."""
    engine = engine_of(records.tables.spark)
    read, items = _records_of(records, engine)
    jobs = Jobs(records, _reading_of(records, read), items, engine)
    return _judged(jobs.compared() if records.stream.identity else jobs.read(), records)


def _records_of(records: BatchRecords, engine: Engine) -> tuple[Records, pa.Table]:
    """Return a batch's records, and the items of tasks."""
    manifest, stream = records.manifest, records.stream
    if manifest.kind == "requeue":
        return requeued_records(engine, records.tables.layout, stream, records.store, manifest)
    if manifest.kind == "kafka":
        parser = Parser.of(stream, (stream.source.fields or None,), keeps_records=bool(stream.identity))
        messages = MessageRecords(parser, manifest.ranges)
        return messages, messages.items(engine.cores)
    files = FileRecords.of(manifest.files, stream)
    return files, files.items


def _reading_of(records: BatchRecords, read: Records) -> Reading:
    target, stream = records.tables, records.stream
    batch, schema = pa.field("batch", pa.int64()), read.parser.schema
    values = pa.schema([field for field in schema if field.name not in VERDICT])
    rejected = pa.schema([schema.field(name) for name in REJECTED])
    raw = sink_of(target.layout.raw(stream.name), values.append(batch))
    quarantine = sink_of(target.layout.quarantine(stream.name), rejected.append(batch))
    profile, revised = sink_of(target.layout.profile(stream.name)), None
    if stream.revisions:
        tables.create_raw(target.layout.revised(stream.name), stream, "revised")
        revised = sink_of(target.layout.revised(stream.name), values)
    newest_us = records.before.newest_us
    return Reading(records.manifest.batch, stream, read, newest_us, raw, quarantine, profile, revised)


@dataclass(frozen=True)
class Jobs:
    """The jobs of one batch; their outputs are in the order of items and parts."""

    records: BatchRecords
    reading: Reading
    items: pa.Table
    engine: Engine

    def read(self) -> list[Output]:
        """Return the outputs of all items, of rows that are not compared."""
        kernel = partial(read_item, reading=self.reading)
        return list(self.engine.map(self.items, kernel, OUTPUTS, self._step("read records")).to_pylist())

    def compared(self) -> list[Output]:
        """Return the outputs without rows that repeat accepted ones; the batch's hashes are in the index then."""
        index = open_index(self.records.tables, self.reading.batch)
        comparing = Comparing.of(self.reading, self._runs(index), Accepted.of(self.records.tables))
        read, judge = (partial(each, comparing=comparing) for each in (hashed_item, judged_bucket))
        step = self._step("compare identities")
        judged = self.engine.by_key(self.items, read, HASHED, BUCKET, judge, OUTPUTS, step)
        rows = _in_order(judged.to_pylist())
        hashes = _of_kind(rows, HASHES)
        self._add_to(index, hashes)
        kept = self._without_repeats(rows)
        beside = [*hashes, *_of_kind(rows, REPEATS), *_of_kind(rows, KEPT)]
        delete_aside(each["path"] for each in beside)
        return kept

    def _runs(self, index: IdentityIndex) -> list[Run]:
        """Return the runs of the index as tasks reach them: those of a cluster may not share the home's folder."""
        layout, name = self.records.tables.layout, self.reading.stream.name
        folder = layout.identity_copies(name)
        if folder is not None and not self.engine.is_local:
            return copied(index.runs(), folder)
        return index.runs()

    def _add_to(self, index: IdentityIndex, hashes: list[Output]) -> None:
        """Make the hashes of all buckets a run of the index."""
        if hashes:
            ends = [json.loads(each["text"]) for each in hashes]
            times = min(each["min"] for each in ends), max(each["max"] for each in ends)
            count = sum(each["rows"] for each in hashes)
            # A bucket at a time is in memory.
            every = (read_aside(each["path"])["hash"].to_numpy() for each in hashes)
            index.add_batch(self.reading.batch, every, count, times)

    def _without_repeats(self, rows: list[Output]) -> list[Output]:
        """Return the outputs once the items that have repeats are written again."""
        numbers = sorted({each["item"] for each in _of_kind(rows, REPEATED)})
        if not numbers:
            return rows
        wanted = pa.array(numbers, pa.int64())
        items = self.items.take(pc.index_in(wanted, self.items["item"].combine_chunks()))
        for kind in (RAW, KEPT):
            items = items.append_column(
                kind, pa.array([_parts_of(rows, kind, number) for number in numbers], _PARTS)
            )
        files = [each["path"] for each in _of_kind(rows, REPEATS)]
        items = items.append_column(REPEATS, pa.array([files] * len(numbers)))
        kernel = partial(without_repeats, reading=self.reading)
        again = self.engine.map(items, kernel, OUTPUTS, self._step("leave out repeats")).to_pylist()
        parts = [each for kind in (RAW, PROFILE) for each in _of_kind(rows, kind)]
        delete_aside(each["path"] for each in parts if each["item"] in numbers)
        redone = (RAW, PROFILE, ACCEPTED)
        kept = [each for each in rows if each["item"] not in numbers or each["kind"] not in redone]
        return _in_order([*kept, *again])

    def _step(self, what: str) -> str:
        return f"ingest {self.reading.stream.name}, batch {self.reading.batch}: {what}"


def _judged(rows: list[Output], records: BatchRecords) -> JudgedBatch:
    texts = (each["text"] for each in _of_kind(rows, RECORDS))
    read = reduce(add, map(RecordCounts.of_text, texts), RecordCounts())
    texts = (each["text"] for each in _of_kind(rows, ACCEPTED))
    accepted = reduce(add, map(AcceptedCounts.of_text, texts), AcceptedCounts())
    repeated = {"duplicate": 0, "conflict": 0}
    for each in _of_kind(rows, REPEATED):
        repeated[each["text"]] += each["rows"]
    conflicts = {"conflict": repeated["conflict"]} if repeated["conflict"] else {}
    read = read + RecordCounts(reasons=conflicts)
    stats = BatchStats.of(records.stream, read, accepted, repeated["duplicate"])
    ranges = (one for each in _of_kind(rows, AMBIGUOUS_RANGES) for one in json.loads(each["text"]))
    tasks = len({each["item"] for each in _of_kind(rows, RAW)})
    raw, quarantine, profile, revised = (_entries(rows, kind) for kind in (RAW, QUARANTINE, PROFILE, REVISED))
    # Records that a requeue reads were counted when they were read first.
    is_first = records.manifest.kind != "requeue"
    days = {int(day): reasons for day, reasons in read.days.items() if is_first}
    return JudgedBatch(raw, quarantine, profile, revised, joined_by_day(ranges), days, stats, tasks)


def _of_kind(rows: list[Output], kind: str) -> list[Output]:
    return [each for each in rows if each["kind"] == kind]


def _parts_of(rows: list[Output], kind: str, item: int) -> list[Output]:
    """Return the parts that an item wrote, in order."""
    own = (each for each in _of_kind(rows, kind) if each["item"] == item)
    return [{name: each[name] for name in ("path", "rows")} for each in own]


def _in_order(rows: list[Output]) -> list[Output]:
    return sorted(rows, key=lambda each: (each["item"] or 0, each["kind"], each["number"] or 0))


def _entries(rows: list[Output], kind: str) -> pa.Table:
    own = [{name: each[name] for name in ENTRIES.names} for each in _of_kind(rows, kind)]
    return pa.Table.from_pylist(own, ENTRIES)

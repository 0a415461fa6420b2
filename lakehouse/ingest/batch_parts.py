"""One ingest batch in tasks: each reads some records, writes parts of raw and quarantine, and returns counts.

    items      what a task reads: some files in path order (file_records), or rejected records (requeued_records)
    a task     records -> the parser's rows -> good ones to raw, others to quarantine; counts (part_counts)
    outputs    one row for each part, with what its commit needs, and one for the counts of an item

Memory of a task: the rows of one part.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Stream
from lakehouse.engine.parts import ENTRIES, TableSink
from lakehouse.ingest.identities.unchecked import Range, ambiguous_ranges, joined_by_day
from lakehouse.ingest.parser.parser import ORIGIN, Parser
from lakehouse.ingest.parser.verdicts import FILTERED, READ_BEFORE
from lakehouse.ingest.part_counts import Counting, RecordCounts
from lakehouse.ingest.profile_parts import profiled

RAW, QUARANTINE, KEPT, RECORDS, ACCEPTED = "raw", "quarantine", "kept", "records", "accepted"
PROFILE = "profile"
# Rows, accepted before or in the batch, that newer ones revise.
REVISED = "revised"
# Ranges of rows whose local time comes twice.
AMBIGUOUS_RANGES = "ambiguous_ranges"
# What the parser says of a record beside its values; what quarantine holds of one.
VERDICT = ["reason", "detail", "record", "message"]
REJECTED = [*VERDICT[:3], *ORIGIN, "message"]
# ``kind``: what an output is; ``number``: which of its item's parts; ``text``: counts.
OUTPUTS = pa.schema(
    [("item", pa.int64()), ("kind", pa.string()), ("number", pa.int64()), ("text", pa.string()), *ENTRIES]
)
Output = dict[str, Any]
# What is held before it is written.
_PART_ROWS, _PART_BYTES = 500_000, 96 * 1024 * 1024


class Records(Protocol):
    """Source of a batch's records; tasks get it whole."""

    @property
    def parser(self) -> Parser:
        """Parser that makes rows of them."""

    @property
    def bytes(self) -> int:
        """About how many bytes of records there are."""

    def parsed(self, item: Output) -> Iterator[pa.Table]:
        """Yield the rows of an item's records, as the parser has them, in order."""

    def again(self, item: Output, path: str, lines: pa.Array) -> Iterator[pa.Table]:
        """Yield the rows of some lines of one of an item's files once more, all with their records."""


@dataclass(frozen=True)
class Reading:
    """Inputs of the tasks of a batch; ``newest_us``: the newest event time accepted before it.

    ``revised``: what writes rows that newer ones revise; None where none is revised.
    """

    batch: int
    stream: Stream
    records: Records
    newest_us: int | None
    raw: TableSink
    quarantine: TableSink
    profile: TableSink
    revised: TableSink | None = None


@dataclass
class PartWriter:
    """Rows on their way into parts of a table, each written when enough rows are held.

    ``summed``: gets the rows of each part before it is written.
    """

    sink: TableSink
    batch: int
    summed: Callable[[pa.Table], None] | None = None
    _held: list[pa.Table] = field(default_factory=list)
    _size: list[int] = field(default_factory=lambda: [0, 0])
    _entries: list[pa.Table] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        """Add rows of the batch."""
        if not rows.num_rows:
            return
        self._held.append(rows)
        self._size = [self._size[0] + rows.num_rows, self._size[1] + rows.nbytes]
        if self._size[0] >= _PART_ROWS or self._size[1] >= _PART_BYTES:
            self._write()

    def close(self) -> list[Output]:
        """Return what is to be committed, in order."""
        if self._held:
            self._write()
        return [row for entries in self._entries for row in entries.to_pylist()]

    def _write(self) -> None:
        if self.summed:
            self.summed(pa.concat_tables(self._held))
        numbered = (
            rows.append_column("batch", pa.repeat(pa.scalar(self.batch, pa.int64()), rows.num_rows))
            for rows in self._held
        )
        self._entries.append(self.sink.write(numbered))
        self._held, self._size = [], [0, 0]


def read_item(item: dict[str, Any], *, reading: Reading) -> Iterator[pa.Table]:
    """Write the rows and rejected records of an item; yield the outputs."""
    task = ItemTask(reading)
    for _ in task.pieces(item):
        pass
    yield outputs(item["item"], task.close())


class AcceptedRows:
    """Accepted rows of an item on their way into parts of raw, with their counts, and parts of the profile."""

    def __init__(self, reading: Reading) -> None:
        self._stream = reading.stream
        self._profile = PartWriter(reading.profile, reading.batch)
        self._raw = PartWriter(reading.raw, reading.batch, self._sum_up)
        self._counting = Counting(reading.stream, reading.newest_us)

    def _sum_up(self, rows: pa.Table) -> None:
        self._profile.add(profiled(rows, self._stream))

    def add(self, rows: pa.Table) -> None:
        """Add rows that come after those before."""
        self._raw.add(rows)
        self._counting.add(rows)

    def close(self) -> list[Output]:
        """Return the outputs."""
        return [
            *written(RAW, self._raw.close()),
            *written(PROFILE, self._profile.close()),
            {"kind": ACCEPTED, "text": self._counting.total.as_text()},
        ]


class ItemTask:
    """An item's records on their way into parts."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._accepted = AcceptedRows(reading)
        self._quarantine = PartWriter(reading.quarantine, reading.batch)
        self._kept = PartWriter(_kept_sink(reading), reading.batch)
        self._records = RecordCounts()
        self._ambiguous = list[Range]()

    def pieces(self, item: Output) -> Iterator[pa.Table]:
        """Yield the good rows of an item's records once they are on their way, in order."""
        for parsed in self._reading.records.parsed(item):
            is_good = parsed["reason"].is_null()
            good = parsed.filter(is_good) if parsed["reason"].null_count < parsed.num_rows else parsed
            rows = good.drop_columns(VERDICT)
            rejected = parsed.select(["event_us", *REJECTED]).filter(pc.invert(is_good))
            self._accepted.add(rows)
            if self._reading.records.parser.keeps_records:
                self._kept.add(good.select(REJECTED))
            is_fault = pc.invert(pc.is_in(rejected["reason"], pa.array([READ_BEFORE, FILTERED])))
            self._quarantine.add(rejected.select(REJECTED).filter(is_fault))
            self._records = self._records + RecordCounts.of(rows, rejected)
            if ambiguous := ambiguous_ranges(parsed, self._reading.stream, self._reading.batch):
                self._ambiguous = joined_by_day([*self._ambiguous, *ambiguous])
            yield rows

    def close(self) -> list[Output]:
        """Return the outputs."""
        return [
            *self._accepted.close(),
            *written(QUARANTINE, self._quarantine.close()),
            *written(KEPT, self._kept.close()),
            {"kind": RECORDS, "text": self._records.as_text()},
            {"kind": AMBIGUOUS_RANGES, "text": json.dumps(self._ambiguous)},
        ]


def _kept_sink(reading: Reading) -> TableSink:
    """Return what writes records beside the parts of raw; nobody commits them."""
    schema = reading.records.parser.schema
    return replace(
        reading.raw, columns=pa.schema([schema.field(name) for name in REJECTED]), statistics=frozenset()
    )


def written(kind: str, entries: list[Output]) -> list[Output]:
    """Return the outputs that parts of a table are."""
    return [{**entry, "kind": kind, "number": number} for number, entry in enumerate(entries)]


def outputs(item: int, rows: list[Output]) -> pa.Table:
    """Return outputs of an item as a table."""
    return pa.Table.from_pylist([{"item": item, **row} for row in rows], OUTPUTS)

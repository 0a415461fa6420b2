"""Rejected records: which are still open, with examples, and how they are taken through again after a fix, or given up.

Nothing in quarantine is ever changed. The manifest of a requeue, or of a loss that was accepted, names reasons; it
takes every record of those reasons that earlier batches rejected and no earlier manifest took. What is open is
therefore a function of the manifests.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Stream
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import file_items
from lakehouse.ingest.sources.manifest import Manifest
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.tables.table_log import files_between, read_parts
from lakehouse.storage.tables.table_reads import named_columns, pieces_of

UNREADABLE = "unreadable_file"
# Files with such a record were not read to their end.
_PARTLY_READ = (UNREADABLE, "truncated_file")
# Reading the same bytes again gives the same result.
NEVER_READ = (*_PARTLY_READ, "too_long", "tombstone", "other_header")

_FILES = pa.schema({"source_file": pa.string()})
_LAST = 2**62
_MOST_REASONS = 3
# Of a record so many bytes are shown, and of a file's columns so many names, each up to a length.
_SHOWN = 200
_MOST_NAMES, _LONGEST_NAME = 12, 30
# Examples are looked for in so many records at a time.
_PIECE = 1_000
_EXAMPLE = ("batch", "reason", "source_file", "source_line", "detail", "record")


@dataclass(frozen=True)
class Rejected:
    """Records that were ever rejected for a reason, and those of them that are not closed yet."""

    records: int
    open: int

    @property
    def closed(self) -> int:
        """Those that a requeue has taken, or that were given up; one rejected again counts again, as another record."""
        return self.records - self.open


def rejected_records(layout: Home, stream: str, through: int | None = None) -> dict[str, Rejected]:
    """Return the rejected records of each reason, by the ledger and requeues of finished batches, up to one if given.

    Whatever shows open or closed records counts them here. Cost: one pass over two columns of the ledger; manifests
    are read where some record was rejected.
    """
    counts: dict[str, Counter[str]] = {"records": Counter(), "open": Counter()}
    for rejected in _rejected(layout, stream, through):
        counted = rejected.group_by("reason").aggregate([(name, "sum") for name in counts])
        for name, counter in counts.items():
            columns = (counted[each].to_pylist() for each in ("reason", f"{name}_sum"))
            counter.update(dict(zip(*columns, strict=True)))
    return {
        reason: Rejected(records, counts["open"][reason]) for reason, records in counts["records"].items()
    }


def waiting_records(layout: Home, stream: Stream) -> dict[str, int]:
    """Return how many rejected records of each reason are open, without reasons of which none is."""
    found = rejected_records(layout, stream.name)
    return {reason: rejected.open for reason, rejected in found.items() if rejected.open}


def open_batches(layout: Home, stream: Stream, reason: str) -> list[int]:
    """Return the batches with records of a reason that no requeue has taken yet."""
    of_reason = (
        rejected.filter(pc.and_(pc.equal(rejected["reason"], reason), pc.greater(rejected["open"], 0)))
        for rejected in _rejected(layout, stream.name)
    )
    return [batch for rejected in of_reason for batch in rejected["batch"].to_pylist()]


def _rejected(layout: Home, stream: str, through: int | None = None) -> Iterator[pa.Table]:
    """Yield rows of batch, reason, records, and of these the open ones, which no requeue has taken yet."""
    requeues: list[Manifest] | None = None
    finished = ("batch", 1, read_extent(layout, stream, through).batch)
    for rows in read_parts(layout.ledger(stream), ("batch", "reasons"), finished):
        rejected = _by_reason(rows)
        if not rejected.num_rows:
            continue
        if requeues is None:
            requeues = _requeues(layout, stream, through)
        records = rejected["records"]
        for manifest in requeues:
            records = pc.if_else(takes_records(manifest, rejected), 0, records)
        yield rejected.append_column("open", records)


def _requeues(layout: Home, stream: str, through: int | None) -> list[Manifest]:
    """Return what closes records; one that has not finished has taken them, unless ``through`` is given."""
    store = ManifestStore(layout.manifests(stream))
    found = (manifest for manifest in store.of_few_kinds() if manifest.closes_records)
    return [manifest for manifest in found if through is None or manifest.batch <= through]


def _by_reason(rows: pa.Table) -> pa.Table:
    """Return a row for each batch and reason of the ledger: how many records were rejected."""
    rows = rows.combine_chunks()
    reasons = rows["reasons"].combine_chunks()
    keys, items = (pa.ListArray.from_arrays(reasons.offsets, part) for part in (reasons.keys, reasons.items))
    return pa.table(
        {
            "batch": rows["batch"].take(pc.list_parent_indices(keys)),
            "reason": pc.list_flatten(keys),
            "records": pc.list_flatten(items),
        }
    )


def partly_read(engine: Engine, layout: Home, stream: Stream) -> set[str]:
    """Return the files that were not read to their end. Cost: one Spark job over two columns of quarantine."""
    # A capture is not read further after bytes that are no packet.
    reasons = (*_PARTLY_READ, "malformed") if stream.source.format == "pcap" else _PARTLY_READ
    return _files_with(engine, layout, stream.name, reasons, (0, _LAST))


def unread_in(engine: Engine, layout: Home, stream: str, batch: int) -> set[str]:
    """Return the files of a finished batch that could not be read. Cost: as that of ``partly_read``."""
    return _files_with(engine, layout, stream, (UNREADABLE,), (batch, batch))


def _files_with(
    engine: Engine, layout: Home, stream: str, reasons: Sequence[str], batches: tuple[int, int]
) -> set[str]:
    files = file_items(files_between(layout.quarantine(stream), ("batch", *batches)))
    kernel = partial(_files_in, reasons=reasons, batches=batches)
    step = f"look for files of {stream} that were not read to their end"
    return set(engine.map(files, kernel, _FILES, step)["source_file"].to_pylist())


def _files_in(item: Item, reasons: Sequence[str], batches: tuple[int, int]) -> Iterator[pa.Table]:
    columns = pa.schema([*_FILES, ("reason", pa.string()), ("batch", pa.int64())])
    is_of = pc.is_in(pc.field("reason"), pa.array(reasons))
    is_of &= (pc.field("batch") >= batches[0]) & (pc.field("batch") <= batches[1])
    for rows in pieces_of(item["path"], columns):
        yield rows.filter(is_of).group_by("source_file").aggregate([])


def takes_records(manifest: Manifest, rejected: pa.Table) -> pa.ChunkedArray:
    """True if a manifest that closes records takes those of a batch and reason; a requeue takes none in vain."""
    takes = pc.less(rejected["batch"], manifest.batch)
    if manifest.kind == "requeue":
        takes = pc.and_not(takes, pc.is_in(rejected["reason"], pa.array(NEVER_READ)))
    if not manifest.reasons:
        return takes
    return pc.and_(takes, pc.is_in(rejected["reason"], pa.array(manifest.reasons, pa.string())))


def rejected_examples(layout: Home, stream: Stream) -> list[str]:
    """Return a line for each of the most frequent open reasons: how many records, of how many, and one of them.

    Cost: two columns of the ledger, and the first parts of quarantine that have the reason.
    """
    reasons = [one for one in rejected_reasons(layout, stream, (), 1, _MOST_REASONS) if one["open"]]
    received = 0
    if reasons:
        finished = ("batch", 1, read_extent(layout, stream.name).batch)
        for rows in read_parts(layout.ledger(stream.name), ("received",), finished):
            received += pc.sum(rows["received"]).as_py() or 0
    return [f"{one['reason']} {one['open']:,} of {received:,}{_such_as(one['examples'])}" for one in reasons]


def _such_as(examples: Sequence[dict[str, Any]]) -> str:
    found = (
        f"line {one['source_line']} of {one['source_file']}: {one['detail']}{_has(one['file_has'])}"
        for one in examples
    )
    return "".join(f", such as {one}" for one in found)


def _has(names: Sequence[str]) -> str:
    """Return the columns of a file in words, as many as a line has room for.

    >>> _has(["time", "device"]), _has([])
    ('; the file has: time, device', '')
    """
    shown = [name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..." for name in names]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"; the file has: {', '.join(shown[:_MOST_NAMES])}{more}" if names else ""


def rejected_reasons(
    layout: Home, stream: Stream, reasons: Sequence[str], limit: int, most: int | None = None
) -> list[dict[str, Any]]:
    """Return each reason with its records, ever rejected, open and closed, and examples; most open ones first.

    ``requeues``: whether a requeue takes them. Examples are of open records. Cost: the ledger's reasons, and parts of
    quarantine until there are enough examples.
    """
    rejected = rejected_records(layout, stream.name)
    ordered = sorted(rejected.items(), key=lambda each: (-each[1].open, each[0]))
    return [
        {
            "reason": reason,
            "rejected": found.records,
            "open": found.open,
            "closed": found.closed,
            "requeues": reason not in NEVER_READ,
            "examples": list(islice(_examples(layout, stream, reason), limit)) if found.open else [],
        }
        for reason, found in islice((one for one in ordered if not reasons or one[0] in reasons), most)
    ]


def _examples(layout: Home, stream: Stream, reason: str) -> Iterator[dict[str, Any]]:
    """Yield open records of a reason, oldest file of the table first; no more is read than is asked for."""
    batches, store = open_batches(layout, stream, reason), ManifestStore(layout.manifests(stream.name))
    columns = named_columns(layout.quarantine(stream.name), _EXAMPLE)
    files = files_between(layout.quarantine(stream.name), ("batch", min(batches), max(batches)))
    # A record may be as large as a batch: it is cut before it is a value of Python.
    for part in (rows for path in files for rows in pieces_of(path, columns, _PIECE)):
        is_open = pc.and_(
            pc.equal(part["reason"], reason), pc.is_in(part["batch"], pa.array(batches, pa.int64()))
        )
        for one in part.filter(is_open).to_batches():
            for row in range(one.num_rows):
                found = {name: one[name][row].as_py() for name in _EXAMPLE[2:5]}
                record, names = _escaped(one["record"][row]), _columns_of(store, found["source_file"])
                yield found | {"record": record, "file_has": names}


def _columns_of(store: ManifestStore, path: str | None) -> list[str]:
    """Return the names of a file's columns as far as a look at it showed them, escaped; none of a topic."""
    found = store.files_of([path]) if path else []
    names = (name for file in found[:1] for name in file.columns or file.fields or ())
    return ["".join(one if one.isprintable() else repr(one)[1:-1] for one in name) for name in names]


def _escaped(record: pa.Scalar) -> str | None:
    if not record.is_valid:
        return None
    start = bytes(record.as_buffer()[:_SHOWN])
    more = "..." if len(record.as_buffer()) > _SHOWN else ""
    # Written like bytes of Python, so that no byte of a record reaches a terminal as it is.
    return repr(start)[2:-1] + more

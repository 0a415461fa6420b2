"""The rejected records that a requeue puts through again, as tasks read them: from the files of quarantine.

A line of which several rows were rejected is read once, and gives those rows. It is judged by the clock of when it was
first listed. Lines of one file, or offsets of one partition, may be in several tasks, each with a range of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.config.stream import Stream
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import file_items
from lakehouse.ingest.file_records import ITEM_BYTES
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.quarantine import takes_records
from lakehouse.ingest.sources.files import headed_now
from lakehouse.ingest.sources.manifest import Manifest
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_files import source
from lakehouse.storage.tables.table_log import files_between, read_columns
from lakehouse.storage.tables.table_reads import pieces_of
from lakehouse.storage.tables.tables_place import place_at

_NAMES = ("source_file", "source_line", "source_item", "record", "message", "reason", "batch")
_LINE = ["source_file", "source_line"]
_PLACES = pa.schema(
    {"source_file": pa.string(), "source_line": pa.int64(), "reason": pa.string(), "batch": pa.int64()}
)
_SPANS = pa.schema(
    {
        "source_file": pa.string(),
        "low": pa.int64(),
        "high": pa.int64(),
        "bytes": pa.float64(),
        "part": pa.string(),
    }
)
# So many lines are parsed at a time.
_LINES = 50_000


@dataclass(frozen=True)
class RequeuedRecords:
    """Rejected records of ``manifest``'s reasons that no earlier one of ``requeues`` took.

    ``listed_us``: when the records of each batch were listed; ``layout_of``: the header of each file's lines. An item
    is ranges of lines by file, and which files of quarantine have them.
    """

    manifest: Manifest
    requeues: tuple[Manifest, ...]
    parser: Parser
    layout_of: Mapping[str, int]
    listed_us: Mapping[int, int]
    bytes: int

    def parsed(self, item: dict[str, Any]) -> Iterator[pa.Table]:
        """Yield the rows of an item's records, as the parser has them, in order."""
        yield from self._rows_of(self._lines(item), self.parser)

    def again(self, item: dict[str, Any], path: str, lines: pa.Array) -> Iterator[pa.Table]:
        """Yield the rows of some lines of one of an item's files once more, all with their records."""
        every = self._lines(item)
        is_wanted = pc.and_(pc.equal(every["source_file"], path), pc.is_in(every["source_line"], lines))
        yield from self._rows_of(every.filter(is_wanted), replace(self.parser, keeps_records=True))

    @staticmethod
    def _rows_of(lines: pa.Table, parser: Parser) -> Iterator[pa.Table]:
        for first in range(0, lines.num_rows, _LINES):
            yield parser.parse(lines.slice(first, _LINES).combine_chunks())

    def _lines(self, item: dict[str, Any]) -> pa.Table:
        """Return an item's lines as the parser takes them, in order."""
        rows = pa.concat_tables([self._taken(place_at(part), item["ranges"]) for part in item["parts"]])
        keys = [(name, "ascending") for name in (*_LINE, "batch", "source_item")]
        rows = rows.sort_by(keys).combine_chunks()
        codes = rows["source_file"].combine_chunks().dictionary_encode().indices.to_numpy()
        numbers = rows["source_line"].to_numpy()
        is_first = np.ones(len(rows), np.bool_)
        is_first[1:] = (np.diff(codes) != 0) | (np.diff(numbers) != 0)
        firsts = np.flatnonzero(is_first)
        ends = pa.array(np.append(firsts, len(rows)), pa.int32())
        lines = rows.take(pa.array(firsts))
        items = pa.ListArray.from_arrays(ends, rows["source_item"].combine_chunks())
        layouts = [self.layout_of.get(path, -1) for path in lines["source_file"].to_pylist()]
        listed = [self.listed_us.get(batch) for batch in lines["batch"].to_pylist()]
        lines = lines.select([*_LINE, "record", "message"])
        lines = lines.append_column("layout", pa.array(layouts, pa.int32()))
        lines = lines.append_column("fault", pa.nulls(len(lines), pa.string()))
        lines = lines.append_column("listed_us", pa.array(listed, pa.int64()))
        return lines.append_column("items", items)

    def _taken(self, part: Location, ranges: list[dict[str, Any]]) -> pa.Table:
        """Return the records of a file of quarantine that the requeue takes, and that are in some ranges."""
        with pq.ParquetFile(source(part)) as file:
            groups = [self._in_ranges(file, group, ranges) for group in range(file.num_row_groups)]
        return pa.concat_tables(groups)

    def _in_ranges(self, file: pq.ParquetFile, group: int, ranges: list[dict[str, Any]]) -> pa.Table:
        rows = file.read_row_group(group, columns=list(_NAMES))
        rows = rows.filter(is_taken(rows, self.manifest, self.requeues))
        wanted = np.zeros(len(rows), np.bool_)
        lines = rows["source_line"].to_numpy()
        for each in ranges:
            is_of = pc.equal(rows["source_file"], each["path"]).to_numpy()
            wanted |= is_of & (lines >= each["low"]) & (lines <= each["high"])
        return rows.filter(pa.array(wanted))


def is_taken(rejected: pa.Table, manifest: Manifest, requeues: tuple[Manifest, ...]) -> pa.ChunkedArray:
    """Return which records, by ``batch`` and ``reason``, a requeue takes that no earlier one took."""
    taken = takes_records(manifest, rejected)
    for earlier in requeues:
        taken = pc.and_not(taken, takes_records(earlier, rejected))
    return taken


def requeued_records(
    engine: Engine, layout: Home, stream: Stream, store: ManifestStore, manifest: Manifest
) -> tuple[RequeuedRecords, pa.Table]:
    """Return the records that a requeue manifest takes, and the items of tasks.

    Cost: one Spark job over four columns of quarantine; memory: some numbers for each of the files, or
    partitions, that records came in.
    """
    requeues = tuple(
        each for each in store.of_few_kinds() if each.closes_records and each.batch < manifest.batch
    )
    spans = _spans(engine, layout, stream, manifest, requeues)
    parser, layout_of = _parser(stream, store, spans["source_file"].to_pylist())
    came = read_columns(layout.ledger(stream.name), ("batch", "committed_at"), None)
    records = RequeuedRecords(
        manifest=replace(manifest, files=()),
        requeues=requeues,
        parser=parser,
        layout_of=layout_of,
        listed_us={batch: int(moment.timestamp() * 1_000_000) for batch, moment in came},
        bytes=int(pc.sum(spans["bytes"]).as_py() or 0),
    )
    return records, _items(spans)


def _spans(
    engine: Engine, layout: Home, stream: Stream, manifest: Manifest, requeues: tuple[Manifest, ...]
) -> pa.Table:
    """Return first and last line, bytes and parts of quarantine of taken records, by file or partition, in order."""
    files = file_items(files_between(layout.quarantine(stream.name), ("batch", 0, manifest.batch - 1)))
    kernel = partial(_spans_in, manifest=replace(manifest, files=()), requeues=requeues)
    step = f"look for rejected records of {stream.name}"
    combine = [("low", "min"), ("high", "max"), ("bytes", "sum"), ("part", "distinct")]
    spans = engine.map(files, kernel, _SPANS, step).group_by("source_file").aggregate(combine)
    return spans.rename_columns(_SPANS.names).sort_by("source_file")


def _spans_in(item: Item, manifest: Manifest, requeues: tuple[Manifest, ...]) -> Iterator[pa.Table]:
    """Yield where the records of a file of quarantine came from, and which lines they were."""
    path = place_at(item["path"])
    with pq.ParquetFile(source(path)) as file:
        size = path.stat().st_size / max(1, file.metadata.num_rows)
    for rows in pieces_of(path, _PLACES):
        rows = rows.filter(is_taken(rows, manifest, requeues))
        combine = [("source_line", end) for end in ("min", "max", "count")]
        spans = rows.group_by("source_file").aggregate(combine).rename_columns(_SPANS.names[:4])
        spans = spans.set_column(3, "bytes", pc.multiply(spans["bytes"].cast(pa.float64()), size))
        yield spans.append_column("part", pa.repeat(item["path"], spans.num_rows))


def _items(spans: pa.Table) -> pa.Table:
    """Return ranges of lines, in order of files, as many small ones as make a task worth its while."""
    ranges, parts, size = [list[dict[str, Any]]()], [dict[str, None]()], 0.0
    for span in spans.to_pylist():
        cuts, first = max(1, int(span["bytes"] // ITEM_BYTES)), span["low"]
        edges = [first + (span["high"] + 1 - first) * n // cuts for n in range(cuts + 1)]
        for low, end in pairwise(edges):
            if size and size + span["bytes"] / cuts > ITEM_BYTES:
                ranges, parts, size = [*ranges, []], [*parts, {}], 0.0
            size += span["bytes"] / cuts
            ranges[-1].append({"path": span["source_file"], "low": low, "high": end - 1})
            parts[-1] |= dict.fromkeys(span["part"])
    full = [n for n, own in enumerate(ranges) if own]
    schema = pa.schema(
        {
            "item": pa.int64(),
            "ranges": pa.list_(pa.struct({"path": pa.string(), "low": pa.int64(), "high": pa.int64()})),
            "parts": pa.list_(pa.string()),
        }
    )
    return pa.table([full, [ranges[n] for n in full], [list(parts[n]) for n in full]], schema=schema)


def _parser(stream: Stream, store: ManifestStore, paths: list[str]) -> tuple[Parser, dict[str, int]]:
    """Return the parser of the lines of some files or partitions, and which of its headers each has."""
    if stream.source.kind == "kafka":
        return Parser.of(stream, (stream.source.fields or None,)), dict.fromkeys(paths, 0)
    files = [headed_now(file, stream.source) for file in store.files_of(paths)]
    parser = Parser.of_files(stream, files)
    return parser, {f.path: parser.layouts.index(f.fields) for f in files if f.unreadable is None}

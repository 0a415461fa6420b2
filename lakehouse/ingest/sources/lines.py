"""A file -> Arrow batches of numbered lines, and their rows.

``layout`` says which of the batch's distinct headers a line belongs to. A file is cut into lines by whole blocks of
bytes: Python works per block, never per line.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.formats import WHOLE
from lakehouse.config.landing import located
from lakehouse.config.stream import Source
from lakehouse.ingest.parser.parquet_rows import parsed_parquet
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.parser.shown_offsets import ShownOffsets, shown_offsets
from lakehouse.ingest.sources.heads import as_lines, as_utf8, whole, without_comments, without_head
from lakehouse.ingest.sources.landed_content import blocks, fault_of, landing_of
from lakehouse.ingest.sources.manifest import LandedFile
from lakehouse.ingest.sources.nfdump import without_remarks
from lakehouse.ingest.sources.numbered import located_lines
from lakehouse.ingest.sources.quoted_lines import joined_by_quotes
from lakehouse.ingest.sources.zeek import without_headers
from lakehouse.storage.doubtful import AMBIGUOUS

BATCH_LINES = 100_000
# Of a line that is too long, so much is kept to be looked at.
KEPT_BYTES = 64 * 1024
NUMBERED = pa.schema({"source_line": pa.int64(), "record": pa.binary(), "fault": pa.string()})
_BOM = b"\xef\xbb\xbf"
_NEWLINE, _RETURN = 10, 13


def parsed_file(
    file: LandedFile, layout: int, parser: Parser, only: pa.Array | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of a file of any format, block by block, as the parser has them; ``layout``: of its lines.

    With ``only``, those of lines of these numbers.
    """
    if parser.stream.source.format == "parquet":
        yield from parsed_parquet(file, parser, only)
        return
    of_file = FileParser(parser, file, layout)
    for lines in records_of(file, parser.stream.source):
        if lines.num_rows:
            # All of them: on which of two equal local times a line is depends on those before it.
            rows = of_file.parse(lines)
            yield rows if only is None else rows.filter(pc.is_in(rows["source_line"], only))


@dataclass
class FileParser:
    """The parser of the lines of one file, block by block in order; ``layout``: of its lines.

    Local times that come twice get the offset that the file's order shows; for that it is read once more.
    """

    parser: Parser
    file: LandedFile
    layout: int
    _shown: ShownOffsets | None = None

    def parse(self, lines: pa.RecordBatch) -> pa.Table:
        """Return the rows of numbered lines."""
        located = self._located(lines)
        rows = self.parser.parse(located, self._shown)
        if self._shown is not None or not self.parser.is_local:
            return rows
        if not pc.any(pc.equal(rows["reason"], AMBIGUOUS)).as_py():
            return rows
        time, every = self.parser.stream.event_time, records_of(self.file, self.parser.stream.source)
        self._shown = shown_offsets((self.parser.times(self._located(each)) for each in every), time.timezone)
        return self.parser.parse(located, self._shown)

    def _located(self, lines: pa.RecordBatch) -> pa.Table:
        numbers, records, faults = lines.columns
        return located_lines(numbers, records, self.file.path, self.layout, faults)


def records_of(file: LandedFile, source: Source) -> Iterator[pa.RecordBatch]:
    """Yield the numbered records of a file of any format but Parquet, without header and remarks.

    Where the file cannot be read any further, as it is gone or its disk fails, one faulty record of number 0 says so.
    """
    read = 0
    try:
        for records in _records(file, source):
            yield records
            read = records["source_line"][-1].as_py() if records.num_rows else read
    except OSError as error:
        yield pa.record_batch([[0], [b""], [fault_of(error, read)]], schema=NUMBERED)


def _records(file: LandedFile, source: Source) -> Iterator[pa.RecordBatch]:
    path, longest = located(source.path, file.path), source.max_record_bytes
    landing = landing_of(source, file.seen)
    if source.append:
        landing = landing._replace(begin=file.begin, end=file.size)
    if source.format == "pcap":
        from lakehouse.ingest.sources.packets import numbered_packets

        return numbered_packets(path, landing)
    if source.format in WHOLE:
        record, fault = whole(blocks(path, landing), longest)
        record = record[:KEPT_BYTES] if len(record) > longest else record
        return iter([pa.record_batch([[1], [record], [fault]], schema=NUMBERED)] if record or fault else [])
    content = as_lines(as_utf8(blocks(path, landing), source.encoding), source)
    quote = source.quote.encode() if source.quoted_lines else b""
    lines = numbered_lines(content, longest, file.known_lines if file.begin else 0, quote)
    if source.format == "nfdump":
        return without_remarks(without_head(lines, source))
    if source.format == "zeek":
        return without_headers(lines)
    if source.format in ("influx", "prometheus"):
        return without_comments(lines, "#")
    return without_head(lines, source, bool(file.begin)) if source.format == "csv" else lines


def numbered_lines(
    content: Iterable[tuple[bytes, str | None]], longest: int, number: int = 0, quote: bytes = b""
) -> Iterator[pa.RecordBatch]:
    """Yield (source_line int64, record binary, fault string) of the blocks of a text, without line ends.

    ``number``: the lines before the blocks, so the first one of all has the number 1.

    Blank lines hold no record and are passed over. A gzip file that ends too early or is damaged yields what could be
    read and one more record with the fault ``truncated_file``. Of a line of more than ``longest`` bytes, its end apart,
    the first KEPT_BYTES come with the fault ``too_long``.

    With a ``quote``, lines are one record while one that was opened is not closed.

    Memory: some blocks and the longest line, however far a file inflates.
    """
    lines = _every_line(content, longest, number)
    if quote:
        lines = (_with_too_long(each, longest) for each in joined_by_quotes(lines, quote, longest))
    for batch in lines:
        yield _without_blank(batch)


def _every_line(
    content: Iterable[tuple[bytes, str | None]], longest: int, number: int
) -> Iterator[pa.RecordBatch]:
    for block, fault in _whole_line_blocks(content, longest):
        for batch, count in _batches(block, number, fault, longest):
            yield batch
            number += count


def _whole_line_blocks(
    content_of: Iterable[tuple[bytes, str | None]], longest: int
) -> Iterator[tuple[bytes, str | None]]:
    """Cut the file into blocks that end with a line; the last line may lack its end, and a long one most of itself."""
    # ``seen``: how long the line is by now that ``rest`` begins, where it is too long already.
    rest, seen, first = b"", 0, True
    for block, fault in content_of:
        content = block.removeprefix(_BOM) if first else block
        first = False
        if seen:
            end = content.find(b"\n")
            seen += len(content) if end < 0 else end
            if end >= 0:
                yield rest, _too_long(seen, longest)
                rest, seen = b"", 0
            content = content[end + 1 :] if end >= 0 else b""
        if not seen:
            content = rest + content
            end = content.rfind(b"\n") + 1
            rest = content[end:]
            if end:
                yield content[:end], None
            # With room for a return before the newline that is still to come.
            if len(rest) > max(longest + 1, KEPT_BYTES):
                rest, seen = rest[:KEPT_BYTES], len(rest)
        if fault is not None:
            yield rest or b"\x00", fault
            return
    if rest:
        yield rest, _too_long(seen, longest) if seen else None


def _too_long(size: int, longest: int) -> str:
    kept = f"the line has {size} bytes, of which the first {min(size, KEPT_BYTES)} are kept"
    return f"too_long: {kept}; expected at most {longest} (max_record_bytes)"


def _batches(
    block: bytes, number: int, fault: str | None, longest: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    data = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        ends = np.append(ends, len(data))
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    for low in range(0, len(ends), BATCH_LINES):
        part = slice(low, low + BATCH_LINES)
        count = len(ends[part])
        batch = _record_batch(block, data, starts[part], ends[part], number, fault)
        batch = _with_too_long(batch, longest) if fault is None else batch
        number += count
        yield batch, count


def _record_batch(
    block: bytes, data: np.ndarray[Any, Any], starts: Any, ends: Any, number: int, fault: str | None
) -> pa.RecordBatch:
    low, high = int(starts[0]), int(ends[-1])
    offsets = np.append(starts, high + 1).astype(np.int64) - low
    # One shared buffer holds lines with their ends; slicing them off in Arrow keeps Python out of the loop.
    bytes_with_end = block[low : high + 1] + (b"" if high < len(data) else b"\n")
    whole = pa.Array.from_buffers(
        pa.binary(), len(starts), [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(bytes_with_end)]
    )
    lines = pc.binary_slice(whole, 0, -1)
    returns = (ends > starts) & (data[np.maximum(ends - 1, 0)] == _RETURN)
    if returns.any():
        lines = pc.if_else(pa.array(returns), pc.binary_slice(lines, 0, -1), lines)
    numbers = pa.array(np.arange(number + 1, number + 1 + len(starts), dtype=np.int64))
    return pa.record_batch([numbers, lines, pa.array([fault] * len(starts), pa.string())], schema=NUMBERED)


def _with_too_long(batch: pa.RecordBatch, longest: int) -> pa.RecordBatch:
    sizes = pc.binary_length(batch.column(1)).to_numpy()
    long = np.flatnonzero(sizes > longest)
    if not len(long):
        return batch
    faults = pa.array([_too_long(int(sizes[row]), longest) for row in long])
    is_long = pa.array(sizes > longest)
    kept = pc.binary_slice(batch.column(1).filter(is_long), 0, KEPT_BYTES)
    columns = [
        batch.column(0),
        pc.replace_with_mask(batch.column(1), is_long, kept),
        pc.replace_with_mask(batch.column(2), is_long, faults),
    ]
    return pa.record_batch(columns, schema=NUMBERED)


def _without_blank(batch: pa.RecordBatch) -> pa.RecordBatch:
    lines = batch.column(1)
    keep = pc.not_equal(pc.binary_length(lines), 0)
    # A line of spaces and tabs alone is as blank as an empty one.
    start = pc.binary_slice(lines, 0, 1)
    suspicious = pc.is_in(start, pa.array([b" ", b"\t"]))
    if pc.any(suspicious).as_py():
        blank = pc.match_substring_regex(lines, r"^[ \t]*$")
        keep = pc.and_(keep, pc.invert(blank))
    return batch.filter(keep)

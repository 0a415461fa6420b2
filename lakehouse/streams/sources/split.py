"""One file -> Arrow batches of numbered lines, vectorised: Python works per block of bytes, never per line."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.streams.sources.landed_content import opened

BLOCK_BYTES = 8 * 1024 * 1024
BATCH_LINES = 100_000
# Of a line that is too long, so much is kept to be looked at.
KEPT_BYTES = 64 * 1024
# How much of a gzip member is looked at first: an empty one is shorter.
_FIRST_BYTES = 64
# Inflated pieces that are put together at most before they are looked at.
_PIECES = 10_000
_ZEROS = re.compile(rb"\x00*")
NUMBERED = pa.schema({"source_line": pa.int64(), "record": pa.binary(), "fault": pa.string()})
_BOM = b"\xef\xbb\xbf"
_NEWLINE, _RETURN = 10, 13


def numbered_lines(
    path: str, skip_header: bool, longest: int, endpoint: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield (source_line int64 from 1, record binary, fault string) of a plain or gzip file, without line ends.

    Blank lines hold no record and are passed over; so is the first line with ``skip_header``. A gzip file that ends too
    early or is damaged yields what could be read and one more record with the fault ``truncated_file``. Of a line of
    more than ``longest`` bytes, its end apart, the first KEPT_BYTES come with the fault ``too_long``.

    Memory: some blocks and the longest line, however far a file inflates.
    """
    number = 0
    for block, fault in _whole_line_blocks(path, longest, endpoint):
        for batch, count in _batches(block, number, fault, longest):
            yield _without(batch, skip_header)
            number += count


def blocks(path: str, endpoint: str | None = None) -> Iterator[tuple[bytes, str | None]]:
    """Yield a plain or gzip file's content in blocks; the last of a damaged gzip file has a fault.

    ``endpoint``: where the store is that has the file, None for the usual one.
    """
    with opened(path, endpoint) as file:
        yield from _inflated(file) if path.endswith(".gz") else _plain(file)


def _whole_line_blocks(path: str, longest: int, endpoint: str | None) -> Iterator[tuple[bytes, str | None]]:
    """Cut the file into blocks that end with a line; the last line may lack its end, and a long one most of itself."""
    # ``seen``: how long the line is by now that ``rest`` begins, where it is too long already.
    rest, seen, first = b"", 0, True
    for block, fault in blocks(path, endpoint):
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


def _plain(file: IO[bytes]) -> Iterator[tuple[bytes, str | None]]:
    while block := file.read(BLOCK_BYTES):
        yield block, None


def _inflated(file: IO[bytes]) -> Iterator[tuple[bytes, str | None]]:
    """Inflate gzip members one after the other, keeping what came before any damage, which ``gzip`` would not."""
    held, size = list[bytes](), 0
    fault = None
    try:
        for content in _members(file):
            held.append(content)
            size += len(content)
            if size >= BLOCK_BYTES // 2 or len(held) >= _PIECES:
                yield b"".join(held), None
                held, size = [], 0
    except (zlib.error, EOFError) as error:
        fault = f"truncated_file: {error}"
    if held or fault:
        yield b"".join(held), fault


def _members(file: IO[bytes]) -> Iterator[bytes]:
    """Yield what a gzip file inflates to, a block at most at a time."""
    member, inside, size = zlib.decompressobj(wbits=31), False, _FIRST_BYTES
    while block := file.read(BLOCK_BYTES // 8):
        at = 0
        while (at := at if inside else _padded(block, at)) < len(block):
            piece = block[at : at + size]
            yield member.decompress(piece, BLOCK_BYTES)
            # What is left over of the piece is looked at again; of a member that goes on, larger ones.
            at += len(piece) - len(member.unconsumed_tail) - len(member.unused_data)
            inside, size = not member.eof, min(2 * size, BLOCK_BYTES // 8)
            if member.eof:
                member, size = zlib.decompressobj(wbits=31), _FIRST_BYTES
    if inside:
        raise EOFError("the gzip stream ends too early")


def _padded(block: bytes, at: int) -> int:
    """Return where the next member may begin: zeros may stand between two."""
    found = _ZEROS.match(block, at)
    return found.end() if found else at


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


def _without(batch: pa.RecordBatch, skip_header: bool) -> pa.RecordBatch:
    lines = batch.column(1)
    keep = pc.not_equal(pc.binary_length(lines), 0)
    # A line of spaces and tabs alone is as blank as an empty one.
    start = pc.binary_slice(lines, 0, 1)
    suspicious = pc.is_in(start, pa.array([b" ", b"\t"]))
    if pc.any(suspicious).as_py():
        blank = pc.match_substring_regex(lines, r"^[ \t]*$")
        keep = pc.and_(keep, pc.invert(blank))
    if skip_header:
        keep = pc.and_(keep, pc.not_equal(batch.column(0), 1))
    return batch.filter(keep)

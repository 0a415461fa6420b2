"""One file -> Arrow batches of numbered lines, vectorised: Python works per block of bytes, never per line."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BLOCK_BYTES = 8 * 1024 * 1024
BATCH_LINES = 100_000
NUMBERED = pa.schema({"source_line": pa.int64(), "record": pa.binary(), "fault": pa.string()})
_BOM = b"\xef\xbb\xbf"
_NEWLINE, _RETURN = 10, 13


def numbered_lines(path: str, skip_header: bool, skip_hash: bool) -> Iterator[pa.RecordBatch]:
    """Yield (source_line int64 from 1, record binary, fault string) of a plain or gzip file, without line ends.

    Blank lines hold no record and are passed over; so are the first line with ``skip_header`` and lines that start
    with ``#`` with ``skip_hash``. A gzip file that ends too early or is damaged yields what could be read and one
    more record with the fault ``truncated_file``.
    """
    number = 0
    for block, fault in _whole_line_blocks(path):
        for batch, count in _batches(block, number, fault):
            yield _without(batch, skip_header, skip_hash)
            number += count


def blocks(path: str) -> Iterator[tuple[bytes, str | None]]:
    """Yield a plain or gzip file's content in blocks; the last of a damaged gzip file has a fault."""
    with open(path, "rb") as file:
        yield from _inflated(file) if path.endswith(".gz") else _plain(file)


def _whole_line_blocks(path: str) -> Iterator[tuple[bytes, str | None]]:
    """Cut the file into blocks that end with a line; the last line may lack its end."""
    rest, first = b"", True
    for block, fault in blocks(path):
        content = rest + (block.removeprefix(_BOM) if first else block)
        first = False
        end = content.rfind(b"\n") + 1
        rest = content[end:]
        if end:
            yield content[:end], None
        if fault is not None:
            yield rest or b"\x00", fault
            return
    if rest:
        yield rest, None


def _plain(file: IO[bytes]) -> Iterator[tuple[bytes, str | None]]:
    while block := file.read(BLOCK_BYTES):
        yield block, None


def _inflated(file: IO[bytes]) -> Iterator[tuple[bytes, str | None]]:
    """Inflate gzip members one after the other, keeping what came before any damage, which ``gzip`` would not."""
    member, inside, pending = zlib.decompressobj(wbits=31), False, b""
    while block := pending or file.read(BLOCK_BYTES // 8):
        try:
            content = member.decompress(block)
        except zlib.error as error:
            yield b"", f"truncated_file: {error}"
            return
        yield content, None
        inside, pending = not member.eof, member.unused_data.lstrip(b"\x00")
        if member.eof:
            member = zlib.decompressobj(wbits=31)
    if inside:
        yield b"", "truncated_file: the gzip stream ends too early"


def _batches(block: bytes, number: int, fault: str | None) -> Iterator[tuple[pa.RecordBatch, int]]:
    data = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        ends = np.append(ends, len(data))
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    for low in range(0, len(ends), BATCH_LINES):
        part = slice(low, low + BATCH_LINES)
        count = len(ends[part])
        batch = _record_batch(block, data, starts[part], ends[part], number, fault)
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


def _without(batch: pa.RecordBatch, skip_header: bool, skip_hash: bool) -> pa.RecordBatch:
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
    if skip_hash:
        keep = pc.and_(keep, pc.not_equal(start, b"#"))
    return batch.filter(keep)

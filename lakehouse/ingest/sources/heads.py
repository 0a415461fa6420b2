"""Heads of files that loggers write: titles, comments and units around the line of names; and other encodings.

A line counts where it is neither blank nor a comment. Bytes become UTF-8 before they are cut into lines, so what is
rejected is kept as UTF-8.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.lines import Encoding, HeaderLines
from lakehouse.config.stream import Source


def _control(error: UnicodeError) -> tuple[str, int]:
    """Return the control character that a byte is which cp1252 leaves open, as browsers read it."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return chr(error.object[error.start]), error.start + 1


codecs.register_error("tidemark-control", _control)


def as_utf8(
    blocks: Iterable[tuple[bytes, str | None]], encoding: Encoding
) -> Iterator[tuple[bytes, str | None]]:
    """Yield the blocks of a file as UTF-8, with their faults; what is no character of UTF-16 becomes U+FFFD."""
    if encoding == "utf-8":
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(encoding)(
        "replace" if encoding == "utf-16" else "tidemark-control"
    )
    for block, fault in blocks:
        yield decoder.decode(block).encode(), fault
    if rest := decoder.decode(b"", final=True).encode():
        yield rest, None


def header_of(lines: Iterable[str], source: Source) -> str:
    """Return the line that names the fields of a file, or is as wide as all; an empty one where there is none."""
    # A line that is passed over, such as a title, says nothing of how many fields there are: the first of data does.
    usual = HeaderLines(line=2 if source.header == "skip" else 1)
    head = source.header if isinstance(source.header, HeaderLines) else usual
    number, is_begun = 0, head.skip_until is None
    for line in lines:
        is_begun = is_begun or bool(re.search(head.skip_until or "", line))
        if is_begun and line.strip(" \t") and not _is_comment(line, source.comment):
            number += 1
            if number == head.line:
                return line
    return ""


def without_head(batches: Iterable[pa.RecordBatch], source: Source) -> Iterator[pa.RecordBatch]:
    """Pass on numbered lines that are no comments, from that where data begin."""
    head, own = source.header, isinstance(source.header, HeaderLines)
    skipped = head.first_of_data - 1 if isinstance(head, HeaderLines) else int(head != "none")
    pattern = head.skip_until if isinstance(head, HeaderLines) else None
    passed, is_begun = 0, not own or pattern is None
    for batch in batches:
        kept = batch
        if not is_begun:
            hits = pc.match_substring_regex(batch.column(1), pattern or "")
            begins = np.flatnonzero(pc.fill_null(hits, False).to_numpy(zero_copy_only=False))
            is_begun = bool(len(begins))
            kept = batch.slice(int(begins[0])) if is_begun else batch.slice(len(batch))
        if source.comment:
            mark = source.comment.encode()
            starts = pc.equal(pc.binary_slice(kept.column(1), 0, len(mark)), pa.scalar(mark, pa.binary()))
            kept = kept.filter(pc.invert(starts))
        rest = kept.slice(min(max(skipped - passed, 0), kept.num_rows))
        passed += kept.num_rows
        yield rest


def _is_comment(line: str, mark: str | None) -> bool:
    return mark is not None and line.startswith(mark)

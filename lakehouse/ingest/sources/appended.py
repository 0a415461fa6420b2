"""Files that grow: of each, the whole lines behind those that were read are new; and logs that were rotated since.

What was read is compared by its digest, so a file that was rewritten or cut is not taken for one that grew.

Cost: a file that grew is read once, for its digests; its new lines once more, in a task.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import IO

from lakehouse.config.formats import LINES
from lakehouse.config.landing import located
from lakehouse.config.store_address import is_remote
from lakehouse.config.stream import Source
from lakehouse.ingest.sources import landed_content
from lakehouse.ingest.sources.compressed import is_compressed
from lakehouse.ingest.sources.files import landed
from lakehouse.ingest.sources.lines import records_of
from lakehouse.ingest.sources.manifest import LandedFile, Seen

_PIECE = 64 * 1024
# What logs are renamed by: a number or a date behind their name, or before its ending.
_ROTATED = re.compile(r"[._-][0-9][0-9T:._-]*(?=(?:\.[a-z]+)?$)")
# The files of these formats are lines of text, unless they are compressed.
_LINES = ("csv", "ndjson", "zeek", "nfdump", *LINES)


class Rewritten(landed_content.Changed):
    """A file that does not begin with what was read of it."""


def grows(name: str, source: Source) -> bool:
    """Return whether a file may grow after it was read: as declared, and not a compressed one."""
    return source.append and not is_compressed(name)


def appended(name: str, now: Seen, before: LandedFile | None, source: Source) -> LandedFile | None:
    """Return a file with what is new of it, as a manifest holds it; None where no whole record is.

    ``before``: the file as it was read the last time, if it was. Raises Rewritten when it does not begin with what was
    read.
    """
    if not grows(name, source):
        return landed(name, now, source)
    begin = before.size if before else 0
    try:
        with landed_content.opened(located(source.path, name), landed_content.landing_of(source)) as content:
            end = _end_of_lines(content, begin, now.size)
            content.seek(0)
            read, lines, whole = _digests(content, begin, end)
    except OSError:
        # The look says why it cannot be read.
        return landed(name, now, source)
    if before and read != before.digest:
        raise Rewritten("it does not begin with what was read of it")
    if end <= begin:
        return None
    file = landed(name, Seen(end, now.mtime_ns, whole, now.version), source, begin, lines)
    # Of a head that is not whole yet the rest would be taken for records later.
    return file if any(batch.num_rows for batch in records_of(file, source)) else None


def _digests(content: IO[bytes], begin: int, end: int) -> tuple[str, int, str]:
    """Return the digest of the bytes up to ``begin`` and the lines there, and the digest of those up to ``end``."""
    found, lines = hashlib.sha256(), 0
    for block in landed_content.first_bytes(content, begin):
        found.update(block)
        lines += block.count(b"\n")
    read = found.hexdigest()[: landed_content.DIGITS]
    for block in landed_content.first_bytes(content, end - begin):
        found.update(block)
    return read, lines, found.hexdigest()[: landed_content.DIGITS]


def log_of(name: str, source: Source) -> list[str]:
    """Return the name that a log may have had before it was rotated, in a list; none where it was not."""
    before = _ROTATED.sub("", name)
    is_log = source.format in _LINES and not is_compressed(before) and not is_remote(source.path)
    return [before] if is_log and before != name else []


def with_known_lines(file: LandedFile, log: LandedFile, source: Source) -> LandedFile | None:
    """Return a file that a log was rotated to after it had grown, with the lines read before; None where it is none."""
    path, landing = located(source.path, file.path), landed_content.landing_of(source)
    with suppress(OSError):
        if 0 < log.size < file.size and landed_content.digest(path, landing, log.size) == log.digest:
            return replace(file, known_lines=landed_content.lines_within(path, landing, log.size))
    return None


def _end_of_lines(content: IO[bytes], begin: int, end: int) -> int:
    """Return where the last whole line ends, ``begin`` where none does."""
    for start in _starts(begin, end):
        content.seek(start)
        piece = content.read(min(_PIECE, end - start))
        if (newline := piece.rfind(b"\n")) >= 0:
            return start + newline + 1
    return begin


def _starts(begin: int, end: int) -> Iterator[int]:
    while end > begin:
        end = max(begin, end - _PIECE)
        yield end

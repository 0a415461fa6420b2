"""Contents of compressed files, in blocks of bounded size however far a file inflates.

    .gz, .bz2, .xz, .zst    one stream, or several one after the other
    .zip                    one file, stored or deflated, or those of some names one after the other

Of a file that is damaged or cut off, what comes before the damage is read, and a fault says what is wrong.
"""

import bz2
import codecs
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any, NamedTuple

BLOCK_BYTES = 8 * 1024 * 1024
ENDINGS = (".gz", ".bz2", ".xz", ".zst", ".zip")
# How much of a gzip member is looked at first: an empty one is shorter.
_FIRST_BYTES = 64
# Inflated pieces that are put together at most before they are looked at.
_PIECES = 10_000
_ZEROS = re.compile(rb"\x00*")
# What xz may take, as its highest usual level asks for 65 MiB; and how large the list of an archive's files may be.
_XZ_BYTES, _LIST_BYTES = 128 * 1024 * 1024, 1024 * 1024
_ZSTD_BYTES = 64 * 1024
# How long a line of a head may be, and how many names of files a fault shows.
_HEAD_BYTES, _NAMES = 64 * 1024, 3
_END_OF_ZIP, _COMMENT_BYTES = b"PK\x05\x06", 66_000


class Members(NamedTuple):
    """Choice of an archive's files: those in whose names ``pattern`` is found, by default the only one.

    Each begins with the same ``head`` lines, which are read once; None where several cannot be read as one.
    """

    pattern: str = ""
    head: int | None = None


ONLY = Members()


def is_compressed(name: str) -> bool:
    """Return whether a file of this name is compressed."""
    return name.endswith(ENDINGS)


def inflated(
    file: IO[bytes], name: str, least: int | None = None, members: Members = ONLY
) -> Iterator[tuple[bytes, str | None]]:
    """Yield what a compressed file of this name holds, in blocks; the last one of a damaged file has a fault.

    ``least``: the bytes that are put together for a block, by default half of the largest. ``members``: of an archive.
    Raises OSError when the disk or the store fails.
    """
    held, size = list[bytes](), 0
    fault = None
    try:
        ending = name[name.rindex(".") :]
        for content in _zip(file, members) if ending == ".zip" else _READERS[ending](file):
            held.append(content)
            size += len(content)
            if size >= (least or BLOCK_BYTES // 2) or len(held) >= _PIECES:
                yield b"".join(held), None
                held, size = [], 0
    except (zlib.error, EOFError, lzma.LZMAError, zipfile.BadZipFile, ValueError) as error:
        fault = f"truncated_file: {error}"
    except OSError as error:
        # The libraries' own: what the machine raises has a number.
        if error.errno is not None:
            raise
        fault = f"truncated_file: {error}"
    if held or fault:
        yield b"".join(held), fault


def _gzip(file: IO[bytes]) -> Iterator[bytes]:
    """Yield what gzip members inflate to one after the other, keeping what came before any damage."""
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


def _streams(file: IO[bytes], begin: Callable[[], Any]) -> Iterator[bytes]:
    """Yield what streams one after the other hold; ``begin`` makes a decompressor of bz2 or lzma."""
    stream, rest, inside = begin(), b"", False
    while block := rest or file.read(BLOCK_BYTES // 8).lstrip(b"" if inside else b"\0"):
        yield stream.decompress(block, BLOCK_BYTES)
        while not (stream.needs_input or stream.eof):
            yield stream.decompress(b"", BLOCK_BYTES)
        rest, inside = stream.unused_data.lstrip(b"\0") if stream.eof else b"", not stream.eof
        stream = begin() if stream.eof else stream
    if inside:
        raise EOFError("the stream ends too early")


def _zstd(file: IO[bytes]) -> Iterator[bytes]:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as content:
        # Of a read that meets damage nothing is left.
        while block := content.read(_ZSTD_BYTES):
            yield block


def _zip(file: IO[bytes], members: Members) -> Iterator[bytes]:
    _require_short_list(file)
    with zipfile.ZipFile(file) as archive:
        first, last, chosen = b"", b"", _chosen(archive, members)
        for number, name in enumerate(chosen):
            with archive.open(name) as content:
                head = b"".join(content.readline(_HEAD_BYTES) for _ in range(members.head or 0))
                # A file may end without the end of its last line.
                yield head.removeprefix(codecs.BOM_UTF8) if not number else b"" if last == b"\n" else b"\n"
                first = first or head.strip()
                if head.strip() != first:
                    raise zipfile.BadZipFile(f"{name!r} has another header than {chosen[0]!r}")
                while block := content.read(BLOCK_BYTES):
                    yield block
                    last = block[-1:]


def _chosen(archive: zipfile.ZipFile, members: Members) -> list[str]:
    """Return the names of the files to read, in their order; raises BadZipFile when they cannot be read as one."""
    files = [
        each for each in archive.infolist() if not (each.is_dir() or each.filename.startswith("__MACOSX/"))
    ]
    chosen = [each for each in files if re.search(members.pattern, each.filename)]
    if not chosen or len(chosen) > (1 if members.head is None or not members.pattern else len(files)):
        names = ", ".join(repr(each.filename) for each in files[:_NAMES])
        which = f"{len(chosen)} of them fit {members.pattern!r}" if members.pattern else "members says which"
        raise zipfile.BadZipFile(f"the archive holds {len(files)} files ({names}); expected one: {which}")
    for each in chosen:
        if each.flag_bits & 1 or each.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile("the archive is encrypted, or compressed in another way than deflate")
    return [each.filename for each in chosen]


def _require_short_list(file: IO[bytes]) -> None:
    """Refuse an archive with a long list of files, which would be in memory as a whole."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _COMMENT_BYTES))
    end = file.read()
    at = end.rfind(_END_OF_ZIP)
    if at < 0 or int.from_bytes(end[at + 12 : at + 16], "little") > _LIST_BYTES:
        raise zipfile.BadZipFile("no archive of one file")
    file.seek(0)


_READERS: dict[str, Callable[[IO[bytes]], Iterator[bytes]]] = {
    ".gz": _gzip,
    ".bz2": partial(_streams, begin=bz2.BZ2Decompressor),
    ".xz": partial(_streams, begin=partial(lzma.LZMADecompressor, memlimit=_XZ_BYTES)),
    ".zst": _zstd,
}

"""Contents of compressed files, in blocks of bounded size however far a file inflates.

    .gz, .bz2, .xz, .zst    one stream, or several one after the other
    .zip                    one file, stored or deflated

Of a file that is damaged or cut off, what comes before the damage is read, and a fault says what is wrong.
"""

import bz2
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any

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
_END_OF_ZIP, _COMMENT_BYTES = b"PK\x05\x06", 66_000


def is_compressed(name: str) -> bool:
    """Return whether a file of this name is compressed."""
    return name.endswith(ENDINGS)


def inflated(file: IO[bytes], name: str, least: int | None = None) -> Iterator[tuple[bytes, str | None]]:
    """Yield what a compressed file of this name holds, in blocks; the last one of a damaged file has a fault.

    ``least``: the bytes that are put together for a block, by default half of the largest. Raises OSError when the
    disk or the store fails.
    """
    held, size = list[bytes](), 0
    fault = None
    try:
        for content in _READERS[name[name.rindex(".") :]](file):
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


def _zip(file: IO[bytes]) -> Iterator[bytes]:
    _require_short_list(file)
    with zipfile.ZipFile(file) as archive:
        inside = [
            each
            for each in archive.infolist()
            if not (each.is_dir() or each.filename.startswith("__MACOSX/"))
        ]
        if len(inside) != 1:
            raise zipfile.BadZipFile(f"the archive holds {len(inside)} files; expected one")
        if inside[0].flag_bits & 1 or inside[0].compress_type not in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        ):
            raise zipfile.BadZipFile("the archive is encrypted, or compressed in another way than deflate")
        with archive.open(inside[0]) as content:
            while block := content.read(BLOCK_BYTES):
                yield block


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
    ".zip": _zip,
}

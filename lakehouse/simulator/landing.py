"""Files that appear whole and never share a name: written beside the landing folder, then renamed into it."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from pathlib import Path

from lakehouse.home.atomic_files import replacing

BOM = b"\xef\xbb\xbf"


def next_number(folder: Path, stream: str) -> int:
    """Return the number of the next file, above every number that is taken."""
    pattern = re.compile(rf"^{re.escape(stream)}-(\d+)\.")
    taken = [int(found[1]) for path in folder.glob(f"{stream}-*") if (found := pattern.match(path.name))]
    return max(taken, default=0) + 1


def write_file(folder: Path, name: str, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file (gzip for a name that ends so) such that whoever looks sees all of it, or nothing."""
    with replacing(folder / name, beside=folder.parent / ".incoming") as file:
        if name.endswith(".gz"):
            # No name and no time inside, so that the same rows give the same bytes.
            with gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=file, mtime=0) as packed:
                packed.writelines(pieces)
        else:
            file.writelines(pieces)

"""The project's own code as one archive: the workers of a cluster import from it what the driver sends them to run."""

import hashlib
import re
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from lakehouse.storage.atomic_files import replacing

# What runs in tasks; whatever else they import is expected in the workers' Python.
PACKAGES = ("lakehouse", "sql")
_SUFFIXES = {".py", ".sql", ".toml", ".lock"}
_ARCHIVE = re.compile(r".*/tidemark-([0-9a-f]{16})\.zip/.*")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def package_archive(folder: Path) -> Path:
    """Return the archive of the installed packages, below a folder, made where there is none of this content.

    Its name says the content: ``tidemark-<hash>.zip``. Cost: reads 2 MB, and writes half of it where the code is new.
    """
    contents = _contents()
    archive = folder / f"tidemark-{_hash_of(contents)}.zip"
    if not archive.is_file():
        with replacing(archive) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, content in contents.items():
                packed.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return archive


@cache
def code_here() -> str:
    """Return the hash of the packages that this process imports, installed or from an archive."""
    in_archive = _ARCHIVE.fullmatch(__file__)
    return in_archive[1] if in_archive else _hash_of(_contents())


def _contents() -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in sorted(_files())}


def _hash_of(contents: Mapping[str, bytes]) -> str:
    found = hashlib.sha256()
    for name, content in contents.items():
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:16]


def _files() -> list[tuple[str, Path]]:
    # Beside this very module: a worker may find another ``sql`` first.
    root = Path(__file__).parents[2]
    return [
        (path.relative_to(root).as_posix(), path)
        for package in PACKAGES
        for path in (root / package).rglob("*")
        if path.suffix in _SUFFIXES and path.is_file()
    ]

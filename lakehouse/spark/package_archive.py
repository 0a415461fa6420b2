"""The project's own code as one archive: the workers of a cluster import from it what the driver sends them to run."""

from __future__ import annotations

import hashlib
import zipfile
from importlib.util import find_spec
from pathlib import Path

from lakehouse.home.atomic_files import replacing

# What runs in tasks; whatever else they import is expected in the workers' Python.
PACKAGES = ("lakehouse", "sql")
_SUFFIXES = {".py", ".sql", ".toml", ".lock"}
_EPOCH = (1980, 1, 1, 0, 0, 0)


def package_archive(folder: Path) -> Path:
    """Return the archive of the installed packages, below a folder, made where there is none of this content.

    Its name says the content: ``tidemark-<hash>.zip``. Cost: reads 2 MB, and writes half of it where the code is new.
    """
    contents = {name: path.read_bytes() for name, path in sorted(_files())}
    told = hashlib.sha256()
    for name, content in contents.items():
        told.update(f"{name}\0{len(content)}\0".encode() + content)
    archive = folder / f"tidemark-{told.hexdigest()[:16]}.zip"
    if not archive.is_file():
        with replacing(archive) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, content in contents.items():
                packed.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return archive


def _files() -> list[tuple[str, Path]]:
    found = []
    for package in PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations if spec else None) or ():
            root = Path(place)
            found += [
                (f"{package}/{path.relative_to(root).as_posix()}", path)
                for path in root.rglob("*")
                if path.suffix in _SUFFIXES and path.is_file()
            ]
    return found

"""The published versions on the object store that has a home's tables: uploaded by changed parts, listed, downloaded.

    serving/versions/00000007.json           the parts of the version: its segments, and the object of each file
    serving/files/00000007-<random>.duckdb   immutable: a version's own file, or a segment

A version is published when its list exists. The list is written only if there is none, so of two publishers of one
number one succeeds. The newest list is the pointer. No two publishers write one object, and none is written twice, so
a downloaded object stays valid; the first version that has a shared segment uploads it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lakehouse.serving.versions.versions import database_path, segment_path
from lakehouse.storage.control.seal import require_leases
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.stores.store_path import StorePath

# The time that a reader of a list has to download the version's own file, whatever is published meanwhile.
_TO_FETCH_S = 60


class PublishedMeanwhile(RuntimeError):
    """Another process has published a version of the same number; readers see no change."""


@dataclass(frozen=True)
class StoredFile:
    """The object that holds a file, and its size."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Listed:
    """The parts of a version: its segments, oldest first, and its files by their paths in ``serving``."""

    segments: tuple[str, ...]
    files: Mapping[str, StoredFile]


def stored_versions(store: StorePath) -> list[int]:
    """Return the versions that a store has, oldest first. Cost: a listing."""
    found = (path.stem for path in (store / "versions").glob("*.json"))
    return sorted(int(stem) for stem in found if stem.isdigit())


@lru_cache(64)
def listed(store: StorePath, version: int) -> Listed:
    """Return the parts of a version. Raises FileNotFoundError if it is not kept."""
    content = json.loads(_list_path(store, version).read_bytes())
    files = {name: StoredFile(*stored) for name, stored in content["files"].items()}
    return Listed(tuple(content["segments"]), files)


def _list_path(store: StorePath, version: int) -> StorePath:
    return store / "versions" / f"{version:08d}.json"


def upload(store: StorePath, folder: Path, version: int, draft: Path, segments: Mapping[str, Path]) -> None:
    """Upload the files that a version does not share with the one before, then its list, which publishes it.

    ``draft`` is the version's own file and ``segments`` are those of its segments, oldest first, at their present
    paths. Raises PublishedMeanwhile if there is a version of this number; LeaseLost if another process has taken the
    lease of publishing meanwhile.
    """
    before = stored_versions(store)
    if before and before[-1] >= version:
        raise _meanwhile(store, version)
    known = listed(store, before[-1]).files if before else {}
    parts = {database_path(folder, version): draft}
    parts |= {segment_path(folder, segment): path for segment, path in segments.items()}
    names = {path.relative_to(folder).as_posix(): found for path, found in parts.items()}
    files = {name: known.get(name) or _uploaded(store, version, path) for name, path in names.items()}
    crash_point("publish.uploaded")
    require_leases()
    _list(store, version, Listed(tuple(segments), files))
    crash_point("publish.listed")


def _list(store: StorePath, version: int, found: Listed) -> None:
    files = {name: [stored.name, stored.bytes] for name, stored in found.files.items()}
    content = json.dumps({"segments": found.segments, "files": files}).encode()
    path = _list_path(store, version)
    try:
        path.write_new(content)
    except FileExistsError:
        # It is this publisher's own if the answer to the first try was lost: the names of objects are random.
        if path.read_bytes() != content:
            raise _meanwhile(store, version) from None


def _meanwhile(store: StorePath, version: int) -> PublishedMeanwhile:
    path = _list_path(store, version)
    return PublishedMeanwhile(f"{path}: another process has published meanwhile: run it again")


def _uploaded(store: StorePath, version: int, path: Path) -> StoredFile:
    name = f"{version:08d}-{os.urandom(8).hex()}.duckdb"
    (store / "files" / name).upload(path)
    return StoredFile(name, path.stat().st_size)


def fetch(store: StorePath, stored: StoredFile, into: Path) -> None:
    """Download an object to a file of this machine. Raises FileNotFoundError if its last version is no longer kept."""
    (store / "files" / stored.name).download(into, stored.bytes)


def drop(store: StorePath, keep: int) -> None:
    """Delete all but the newest ``keep`` versions and those of the last minute, and objects that none of them names.

    It also deletes the uploads of a publisher that died. Cost: two listings, and a request for each deletion.
    """
    kept = stored_versions(store)
    newest_s = _list_path(store, kept[-1]).stat().st_mtime
    for version in kept[:-keep]:
        if _list_path(store, version).stat().st_mtime < newest_s - _TO_FETCH_S:
            _list_path(store, version).unlink()
            kept.remove(version)
    named = {stored.name for version in kept for stored in listed(store, version).files.values()}
    for path in (store / "files").glob("*.duckdb"):
        # An object with a later number belongs to a version that is not listed yet.
        if path.name not in named and int(path.name.partition("-")[0]) <= kept[-1]:
            path.unlink()

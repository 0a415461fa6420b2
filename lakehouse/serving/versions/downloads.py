"""Versions on the machine that reads them: those published on an object store are downloaded.

The folder ``serving`` of a home is then a cache. It has the same files under the same names, each downloaded once,
under a hidden name until it is complete. It holds only versions that the store has, and those that a reader has open.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse.serving.versions.store_versions import StoredFile, fetch, listed, stored_versions
from lakehouse.serving.versions.versions import (
    Hold,
    VersionGone,
    current_version,
    database_path,
    hold_current,
    hold_version,
    keep_only,
    segment_path,
    take_as_current,
    take_in,
    versions,
)
from lakehouse.storage.atomic_files import sync
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_access import ObjectUnread, StoreUnavailable
from lakehouse.storage.stores.store_path import StorePath

log = logging.getLogger(__name__)
# How often a listed file may be missing when it is downloaded, because newer versions were published meanwhile.
_TRIES = 20
_FETCHED = ".fetched-"
# Folders whose store did not answer last time: readers come and go, and the process logs it once.
_SILENT: set[Path] = set()


def hold_downloaded(home: Home, version: int | None = None) -> Hold:
    """Take the shared lock on a version, by default the current one, after downloading it.

    If the store does not answer, the current version is the last one that was downloaded, and the log says so. Raises
    NotPublished if there is no version; VersionGone if the version asked for is not kept.
    """
    if version is None:
        look(home)
        return hold_current(home.serving)
    try:
        return hold_version(home.serving, version)
    except VersionGone:
        if not _is_downloaded(home, version):
            raise
    return hold_version(home.serving, version)


def look(home: Home) -> None:
    """Download the current version if the store answers, or if there is none here yet."""
    store = home.published
    if store is None:
        return
    try:
        download_current(home.serving, store)
        _SILENT.discard(home.serving)
    except (StoreUnavailable, ObjectUnread) as error:
        here = current_version(home.serving)
        if here is None:
            raise
        # A reader that checks every second logs it once.
        if home.serving not in _SILENT:
            log.warning("version %s is the last that was downloaded: %s", here, error)
        _SILENT.add(home.serving)


def kept_versions(home: Home) -> list[int]:
    """Return every version that can be asked, oldest first."""
    store = home.published
    return sorted({*versions(home.serving), *(stored_versions(store) if store else ())})


def download_current(folder: Path, store: StorePath) -> None:
    """Download the newest version unless it is here; delete versions that the store no longer has.

    Cost: a listing, and the files of a new version that it does not share with those that are here. Raises
    StoreUnavailable or ObjectUnread if the store does not answer, or does not return a file.
    """
    for tries_left in reversed(range(_TRIES)):
        kept = stored_versions(store)
        if not kept or kept[-1] <= (current_version(folder) or 0):
            return
        try:
            with downloading(folder):
                _download(folder, store, kept[-1])
                # Another process may have downloaded a newer one.
                if kept[-1] > (current_version(folder) or 0):
                    take_as_current(folder, kept[-1])
                    keep_only(folder, kept)
            return
        except FileNotFoundError:
            if not tries_left:
                raise


def _is_downloaded(home: Home, version: int) -> bool:
    store = home.published
    if store is None:
        return False
    try:
        with downloading(home.serving):
            _download(home.serving, store, version)
    except FileNotFoundError:
        return False
    return True


def _download(folder: Path, store: StorePath, version: int) -> None:
    if database_path(folder, version).exists():
        return
    found, own = listed(store, version), database_path(folder, version)
    hidden = own.with_name(_FETCHED + own.name)
    # First the version's own file, then shared ones, which stay for the next try.
    _fetch(store, found.files[own.name], hidden)
    for segment in found.segments:
        path = segment_path(folder, segment)
        stored = found.files[path.relative_to(folder).as_posix()]
        if not path.exists() or path.stat().st_size != stored.bytes:
            _fetch(store, stored, path.with_name(_FETCHED + path.name))
            os.replace(path.with_name(_FETCHED + path.name), path)
    take_in(folder, version, hidden, found.segments)


def _fetch(store: StorePath, stored: StoredFile, into: Path) -> None:
    fetch(store, stored, into)
    sync(into)


@contextmanager
def downloading(folder: Path) -> Iterator[None]:
    """Be the only process that downloads versions into a folder; incomplete downloads are deleted."""
    (folder / "segments").mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "download.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for pattern in (f"{_FETCHED}*", f"segments/{_FETCHED}*"):
            for left in folder.glob(pattern):
                left.unlink()
        yield
    finally:
        os.close(descriptor)

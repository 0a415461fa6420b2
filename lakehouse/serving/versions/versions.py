"""The published versions: a pointer to the current one, and a shared lock that keeps a version for a reader.

    serving/current                    text: the version that readers open next
    serving/00000007.duckdb            immutable
    serving/00000007.segments          text: the segments that it is read with, oldest first; absent without any
    serving/00000007.lock              flock: shared by readers, exclusive for the process that deletes the version
    serving/segments/00000003.duckdb   immutable: nodes that versions share; deleted with the last version that names it

The lock has its own file because DuckDB holds a POSIX lock on the database file, which the process would lose as soon
as it closed any other descriptor of that file. The kernel releases a flock with its process, so a crashed reader
holds nothing. Deletion takes the lock, then deletes the database, then the lock's file. A reader that got the lock
checks again that the locked file is still the one in the folder.

If versions are published on an object store, this folder has those that were downloaded (downloads.py).
"""

import fcntl
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lakehouse.storage.atomic_files import sync, write_text
from lakehouse.storage.control.place import is_shared
from lakehouse.storage.control.seal import naming_drafts, write_sealed
from lakehouse.storage.layout import Home

_RETRIES = 50


class NotPublished(RuntimeError):
    """Nothing can be asked: there is no version yet, or the file of the current one is missing."""

    def __init__(self, folder: Path, gone: int | None = None) -> None:
        nothing = f"nothing published yet in {folder}: run `tidemark run`"
        super().__init__(
            nothing if gone is None else f"{database_path(folder, gone)} is gone: {anew(folder)}"
        )


class VersionGone(RuntimeError):
    """A version that is no longer kept, or never existed; ``nearest`` is the kept one with the closest number."""

    def __init__(self, version: int, nearest: int | None) -> None:
        super().__init__(f"version {version} is not kept; the nearest that is: {nearest or 'none'}")
        self.nearest = nearest


@dataclass
class Hold(AbstractContextManager["Hold"]):
    """A version that cannot be deleted until this is closed, or its process ends."""

    version: int
    path: Path
    _descriptor: int

    def close(self) -> None:
        """Release the version."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __exit__(self, *_: object) -> None:
        self.close()


def anew(folder: Path) -> str:
    """Return how to get a complete version if the files of the current one are damaged."""
    return f"remove {folder / 'current'}, and `tidemark run` publishes anew"


def database_path(folder: Path, version: int) -> Path:
    """Return where a version's file is."""
    return folder / f"{version:08d}.duckdb"


def lock_path(folder: Path, version: int) -> Path:
    """Return where a version's lock is."""
    return folder / f"{version:08d}.lock"


def segment_path(folder: Path, segment: str) -> Path:
    """Return where a segment's file is."""
    return folder / "segments" / f"{segment}.duckdb"


def segments_of(database: Path) -> list[str]:
    """Return the segments that a version's file is read with, oldest first."""
    try:
        return database.with_suffix(".segments").read_text(encoding="ascii").split()
    except FileNotFoundError:
        return []


def files_of_version(folder: Path, version: int) -> list[Path]:
    """Return the files that hold a version: its own, and those of its segments."""
    path = database_path(folder, version)
    return [path, *(segment_path(folder, segment) for segment in segments_of(path))]


def current_version(folder: Path) -> int | None:
    """Return the version that the pointer names, None before the first publish.

    Raises ValueError if the pointer holds anything but a version.
    """
    try:
        text = (folder / "current").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    if not text.isdigit():
        raise ValueError(
            f"{folder / 'current'}: expected a version such as 00000007, found {text[:40]!r}: {anew(folder)}"
        )
    return int(text)


def hold_current(folder: Path) -> Hold:
    """Take the shared lock on the current version.

    Raises NotPublished if there is no version, or its file is missing.
    """
    version = None
    for _ in range(_RETRIES):
        version = current_version(folder)
        if version is None:
            break
        held = _hold(folder, version)
        if held is not None:
            return held
    raise NotPublished(folder, version)


def hold_version(folder: Path, version: int) -> Hold:
    """Take the shared lock on one version. Raises VersionGone if it does not exist, with the nearest one."""
    held = _hold(folder, version)
    if held is None:
        kept = versions(folder)
        raise VersionGone(version, min(kept, key=lambda one: abs(one - version), default=None))
    return held


def _hold(folder: Path, version: int) -> Hold | None:
    lock = lock_path(folder, version)
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    path = database_path(folder, version)
    if _is_linked(descriptor, lock) and path.exists():
        return Hold(version, path, descriptor)
    os.close(descriptor)
    return None


def _is_linked(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def versions(folder: Path) -> list[int]:
    """Return every version that has a file, oldest first."""
    return sorted(int(path.stem) for path in folder.glob("*.duckdb") if path.stem.isdigit())


def next_version(folder: Path) -> int:
    """Return a number above every version that exists, that the pointer names, or that still has a lock."""
    locks = [int(path.stem) for path in folder.glob("*.lock") if path.stem.isdigit()]
    return max([0, current_version(folder) or 0, *versions(folder), *locks]) + 1


def draft_path(folder: Path, name: str) -> Path:
    """Return the path at which this process writes a file before it has its name; no other process uses it."""
    return folder / f".draft-{name}{_of_this_process()}"


def discard_drafts(folder: Path) -> None:
    """Remove the drafts of this process."""
    for path in (
        *folder.glob(f".draft-*{_of_this_process()}*"),
        *folder.glob(f"segments/.draft-*{_of_this_process()}*"),
    ):
        path.unlink(missing_ok=True)


def _of_this_process() -> str:
    return f"-{os.uname().nodename}-{os.getpid()}.duckdb"


def place_segment(folder: Path, segment: str, written: Path) -> None:
    """Give a finished file its segment's name, durably; no version names it yet."""
    path = segment_path(folder, segment)
    sync(written)
    with naming_drafts():
        os.replace(written, path)
    sync(path.parent)


def place(folder: Path, version: int, written: Path, segments: Sequence[str] = ()) -> Path:
    """Give a finished file its version's name, durably; readers do not see it before the pointer moves."""
    lock_path(folder, version).touch()
    path = database_path(folder, version)
    if segments:
        write_sealed(path.with_suffix(".segments"), "\n".join(segments) + "\n")
    sync(written)
    with naming_drafts():
        os.replace(written, path)
    sync(folder)
    return path


def point_to(folder: Path, version: int) -> None:
    """Make a version the current one, atomically and durably."""
    write_sealed(folder / "current", f"{version:08d}\n")


def take_in(folder: Path, version: int, fetched: Path, segments: Sequence[str]) -> None:
    """Give the downloaded file of a published version its name; its segments are there already."""
    lock_path(folder, version).touch()
    path = database_path(folder, version)
    if segments:
        write_text(path.with_suffix(".segments"), "\n".join(segments) + "\n", durable=True)
    os.replace(fetched, path)


def take_as_current(folder: Path, version: int) -> None:
    """Make a downloaded version the current one."""
    write_text(folder / "current", f"{version:08d}\n", durable=True)


def collect(folder: Path, keep: int) -> list[int]:
    """Delete all but the newest ``keep`` versions and the current one; keep versions that a reader holds.

    Segments that no version names any more are deleted too. Returns the versions deleted.
    """
    return keep_only(folder, versions(folder)[-keep:])


def keep_only(folder: Path, kept: Collection[int]) -> list[int]:
    """Delete all versions but these and the current one, as ``collect`` does."""
    current = current_version(folder)
    old = [version for version in versions(folder) if version not in kept and version != current]
    removed = [version for version in old if _remove(folder, version)]
    left = {
        segment for version in versions(folder) for segment in segments_of(database_path(folder, version))
    }
    for path in (folder / "segments").glob("*.duckdb"):
        # A file with a later number belongs to a successor, whose version does not exist yet.
        if path.stem[:8].isdigit() and path.stem not in left and int(path.stem[:8]) <= (current or 0):
            path.unlink()
    return removed


def _remove(folder: Path, version: int) -> bool:
    lock = lock_path(folder, version)
    lock.touch()
    descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        with suppress(FileNotFoundError):
            database_path(folder, version).unlink()
        # Deleted after the version itself, which nobody could read without it.
        database_path(folder, version).with_suffix(".segments").unlink(missing_ok=True)
        lock.unlink(missing_ok=True)
        return True
    finally:
        os.close(descriptor)


@contextmanager
def publisher(home: Home) -> Iterator[None]:
    """Be the only publisher of a home; a second one waits. Leftovers of an earlier one are deleted."""
    folder = home.serving
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "publish.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        # If a database keeps the lease, a paused publisher must not delay the present holder.
        if not is_shared(home):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        for name in (".draft-*", ".current.*", ".*.segments.*", "segments/.draft-*"):
            for draft in folder.glob(name):
                draft.unlink()
        yield
    finally:
        os.close(descriptor)

"""Files that were read and have another size or time by now: which of them have other content, which only grew.

    manifests/<stream>/compared.sqlite    what a comparison found, by name, size and time

A file is compared once for each time that it is touched, so that a landing folder restored without its times costs one
more read; one that may grow, by whoever reads what is new of it. The file says nothing that a comparison would not: it
may be deleted.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from lakehouse.config.landing import located
from lakehouse.config.store_address import is_remote
from lakehouse.config.stream import Source
from lakehouse.ingest.sources.appended import grows
from lakehouse.ingest.sources.landed_content import digest, landing_of
from lakehouse.ingest.sources.manifest import LandedFile, Seen

SAME, GROWN, CHANGED = "same", "grown", "changed"
# A look compares so many bytes at most, about two seconds; what is left waits for the next one.
_MOST_BYTES = 2 * 1024**3
_TABLE = """
CREATE TABLE IF NOT EXISTS compared (
    path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, was TEXT, state TEXT
) WITHOUT ROWID
"""
_NOTE = "INSERT OR REPLACE INTO compared VALUES (?, ?, ?, ?, ?)"
Touched = tuple[LandedFile, Seen]


def sentence(file: LandedFile, now: Seen, state: str) -> str:
    """Return what is wrong with a file that was read, and what to do."""
    if state == GROWN:
        more = now.size - file.size
        return (
            f"{file.path} grew by {more:,} bytes after it was read; these are not read: declare append = true, or give "
            "them a new name"
        )
    return f"{file.path} changed after it was read, not read again; give it a new name"


class ComparedFiles:
    """Comparisons of the files of one stream with what was read of them."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "compared.sqlite"

    def states(self, touched: Sequence[Touched], source: Source) -> list[str]:
        """Return the state of each file that has another size or time than when it was read."""
        if not touched:
            return []
        with self._opened() as database:
            names = json.dumps([file.path for file, _ in touched])
            known = {
                tuple(row): state
                for *row, state in database.execute(
                    "SELECT path, size, mtime_ns, was, state FROM compared "
                    "WHERE path IN (SELECT value FROM json_each(?))",
                    (names,),
                )
            }
            found, room = list[str](), _MOST_BYTES
            for file, now in touched:
                key = (file.path, now.size, now.mtime_ns, file.digest)
                state = known.get(key)
                if state is None and now.size > file.size and file.digest and grows(file.path, source):
                    state = GROWN
                elif state is None and room >= 0:
                    room -= file.size
                    state = _state(file, now, source)
                    database.execute(_NOTE, (*key, state))
                found.append(state or (SAME if now.size == file.size else CHANGED))
            return found

    def note(self, file: LandedFile, now: Seen, state: str) -> None:
        """Keep what a file was found to be by whoever read it."""
        with self._opened() as database:
            database.execute(_NOTE, (file.path, now.size, now.mtime_ns, file.digest, state))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._path, timeout=60)) as database, database:
            database.execute(_TABLE)
            yield database


def _state(file: LandedFile, now: Seen, source: Source) -> str:
    """Compare the content of a file with what was read; where that is not known, the size."""
    path = located(source.path, file.path)
    if now.size < file.size or not file.digest:
        return SAME if now.size == file.size else CHANGED
    if is_remote(path):
        return SAME if now.size == file.size and now.digest == file.digest else CHANGED
    try:
        begins_alike = digest(path, landing_of(source), file.size) == file.digest
    except OSError:
        return CHANGED
    if not begins_alike:
        return CHANGED
    return SAME if now.size == file.size else GROWN

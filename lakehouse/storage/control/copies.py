"""Small files that machines with homes of their own share: rows of the control store, of which each home has a copy.

    tidemark_files        path in the home, content, and the number of the change; null content: the file is deleted
    <home>/copies.json    up to which change of each part this home has copied

A part is what one lease protects: the manifests of a stream, the batches of a query, its repairs. Whoever holds the
lease numbers its changes 1, 2, 3, ..., and a session that has lost it changes nothing. So whoever takes the lease next
copies what has a later number and has all; killed on the way, it copies the same again. Who writes a file writes the
row first. What is folded away in one home stays in the rows: other homes fold their own copies. What a home had before
it shared becomes rows with the first lease; what it had folded by then does not, so another home is told to take that
file from it.

Only where tables are on a store and a database keeps the leases; otherwise machines share the folder itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lakehouse.config.problems import Permanent
from lakehouse.storage.atomic_files import write_json, write_text
from lakehouse.storage.control.place import Place, place_of
from lakehouse.storage.tables.tables_place import is_on_store, place_in

FOLDED = "folded.sqlite"
# What each lease protects: folders of the home, with a folder for each stream or query, and the names of files there.
_FILES_OF = {
    "raw": [("manifests", "[0-9]*.json"), ("manifests", FOLDED)],
    "queries": [("batch_manifests", name) for name in ("query", "statement", "batch-*", FOLDED)],
    "repairs": [("batch_manifests", "repair-*")],
}
_COPIED, _LOCK = "copies.json", ".copies.lock"
# A question is answered in pieces of so many rows; of so many files not each is flushed alone.
_PAGE, _MANY = 1_000, 50
_CHANGE = (
    "INSERT INTO tidemark_files AS f SELECT :home, :path, :part, coalesce(max(change), 0) + 1, CAST(:content AS TEXT) "
    "FROM tidemark_files WHERE home = :home AND part = :part "
    "ON CONFLICT (home, path) DO UPDATE SET change = excluded.change, content = excluded.content {where} "
    "RETURNING change"
)
_SHARED = (
    "SELECT path FROM tidemark_files WHERE home = :home AND starts_with(path, :below) AND content IS NOT NULL"
)
# Of a part without rows; all in one statement, since a part that has some is taken for one that has all.
_BEGIN = (
    "INSERT INTO tidemark_files (home, path, part, change, content) "
    "SELECT :home, file ->> 'path', :part, change, file ->> 'content' "
    "FROM json_array_elements(CAST(:files AS json)) WITH ORDINALITY AS files (file, change) RETURNING change"
)
# Every part is named by a lease that was taken once; of each the index gives the rows that are new, and no others.
_SINCE = (
    "SELECT f.part, f.change, f.path, f.content FROM tidemark_leases AS l CROSS JOIN LATERAL ("
    "SELECT part, change, path, content FROM tidemark_files WHERE home = l.home AND part = l.name "
    "AND change > coalesce(CAST(CAST(:copied AS json) ->> l.name AS bigint), 0) ORDER BY change LIMIT :most"
    ") AS f WHERE l.home = :home ORDER BY f.part, f.change LIMIT :most"
)


class CopyMissing(Permanent, RuntimeError):
    """A file that was folded before homes shared rows is not in this home."""


@contextmanager
def putting(path: Path, text: str, *, is_new: bool) -> Iterator[None]:
    """Let other homes have a file, which is written in the block.

    Nothing where machines share the folder, or where it is not one that they need. If the block is not finished, this
    home copies the file with its next lease, as others do.

    Raises:
        FileExistsError: when one that should be new is there.
        LeaseLost: when another process has taken the lease meanwhile.
    """
    with _changing(path, text, "WHERE f.content IS NULL" if is_new else ""):
        yield


def drop(path: Path) -> None:
    """Delete a file, here and for other homes; one that is gone is passed over."""
    with _changing(path, None, ""):
        path.unlink(missing_ok=True)


def shared_in(folder: Path) -> list[Path]:
    """Return the files of a folder that other homes may have, those folded here too; none where machines share it."""
    place = place_of(folder)
    if place is None or not _is_copied(place.root):
        return []
    found = place.session.rows(_SHARED, home=place.home, below=f"{place.name}/")
    return [place.root / path for (path,) in found]


@contextmanager
def _changing(path: Path, text: str | None, where: str) -> Iterator[None]:
    place = place_of(path)
    part = _part_of(place) if place is not None and _is_copied(place.root) else None
    if place is None or part is None:
        yield
        return
    with _copying(place.root):
        values = {"home": place.home, "path": place.name, "part": part, "content": text}
        changed = place.session.rows(_CHANGE.format(where=where), **values)
        if not changed:
            raise FileExistsError(17, "Another process has written it", str(path))
        yield
        # Not before: a home that has no file but its number never gets the file.
        _note(place.root, _copied(place.root) | {part: changed[0][0]})


def copy_parts(place: Place) -> None:
    """Copy what other machines wrote since, of all parts, for whoever has taken a lease. Cost: a round trip."""
    if not _is_copied(place.root):
        return
    with _copying(place.root):
        while _copy_some(place) == _PAGE:
            pass
        if place.name not in _copied(place.root):
            _begin(place)


def _copy_some(place: Place) -> int:
    copied = _copied(place.root)
    values = {"home": place.home, "copied": json.dumps(copied), "most": _PAGE}
    found = place.session.rows(_SINCE, **values)
    for part, change, path, content in found:
        _apply(place.root / path, content, is_durable=len(found) < _MANY)
        copied[part] = change
    if len(found) >= _MANY:
        os.sync()
    if found:
        _note(place.root, copied)
    return len(found)


def _apply(path: Path, content: str | None, *, is_durable: bool) -> None:
    if content is None:
        path.unlink(missing_ok=True)
        # A query that was forgotten elsewhere is not known here by an empty folder.
        with suppress(OSError):
            path.parent.rmdir()
    elif path.name == FOLDED:
        if not path.exists():
            raise CopyMissing(
                f"{path}: copy it from the home on {content}, which folded it before homes shared rows"
            )
    elif not path.exists() or path.read_text("utf-8") != content:
        write_text(path, content, durable=is_durable)


def _begin(place: Place) -> None:
    """Make rows of what a home had of a part before it shared; whoever holds the lease of the part calls this."""
    kind, _, name = place.name.partition("/")
    files = list[dict[str, str]]()
    for folder, pattern in _FILES_OF.get(kind, ()):
        for path in sorted((place.root / folder / name).glob(pattern)):
            text = socket.gethostname() if path.name == FOLDED else path.read_text("utf-8")
            files.append({"path": path.relative_to(place.root).as_posix(), "content": text})
    if files:
        values = {"home": place.home, "part": place.name, "files": json.dumps(files)}
        begun = place.session.rows(_BEGIN, **values)
        _note(place.root, _copied(place.root) | {place.name: len(begun)})


def _part_of(place: Place) -> str | None:
    """Return the part of a file, None of one that no other home needs."""
    kind, _, rest = place.name.partition("/")
    name, _, file = rest.partition("/")
    if kind == "manifests":
        return f"raw/{name}"
    if kind == "batch_manifests":
        return f"repairs/{name}" if file.startswith("repair-") else f"queries/{name}"
    return None


def _is_copied(root: Path) -> bool:
    return is_on_store(place_in(root))


@contextmanager
def _copying(root: Path) -> Iterator[None]:
    """Let one process of this machine at a time write rows or copies, so that no copy is older than its number."""
    with (root / _LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _copied(root: Path) -> dict[str, int]:
    try:
        found: dict[str, int] = json.loads((root / _COPIED).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found


def _note(root: Path, copied: dict[str, int]) -> None:
    write_json(root / _COPIED, copied, durable=True)

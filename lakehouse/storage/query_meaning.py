"""Meaning of a query when its first batch began: its tables belong to that meaning.

batch_manifests/<query>/query        the meaning, in one line
batch_manifests/<query>/statement    the same for people: the query as it was written then, in one line
"""

from __future__ import annotations

from pathlib import Path

from lakehouse.config.problems import Permanent
from lakehouse.storage.control.seal import write_sealed
from lakehouse.storage.damaged import RESTORE, naming


class QueryChanged(Permanent, RuntimeError):
    """A query means something other than what its tables were made for."""


def read_definition(folder: Path) -> str | None:
    """Return what the query meant when its first batch began, None before that."""
    return _read(folder / "query")


def _read(path: Path) -> str | None:
    if not path.is_file():
        return None
    with naming(path, f"{RESTORE}, or start over with `tidemark queries --forget {path.parent.name}`"):
        return path.read_text("utf-8")


def replace_definition(folder: Path, definition: str, statement: str) -> None:
    """Record what the query's tables were made for, whatever was recorded before."""
    write_sealed(folder / "query", definition)
    write_sealed(folder / "statement", statement)


def meanings(folder: Path, definition: str, statement: str) -> tuple[str, str] | None:
    """Return what the query's tables were made for and what it means now, both for people; None if they are the same.

    Both are the written texts. Definitions are returned if a text was not recorded, or if the texts do not differ
    because only the declarations of streams do.
    """
    before = read_definition(folder)
    if before in (None, definition):
        return None
    written = _read(folder / "statement") or ""
    return (before or "", definition) if written in ("", statement) else (written, statement)


def require_same(folder: Path, query: str, definition: str, statement: str) -> None:
    """Refuse a query that means something other than when its first batch began.

    Raises:
        QueryChanged: with what to do.
    """
    if changed := meanings(folder, definition, statement):
        before, now = changed
        raise QueryChanged(
            f"query {query} has pairs and state of another meaning: it was {before}, it is {now} now; give "
            f"the new one a name of its own, or start over with `tidemark queries --forget {query}`"
        )
    if read_definition(folder) is None:
        replace_definition(folder, definition, statement)
    elif not (folder / "statement").is_file():
        write_sealed(folder / "statement", statement)


def is_of(folder: Path, definition: str) -> bool:
    """Return whether a query's pairs are of this meaning; the choice of slack is not part of it."""
    before = read_definition(folder)
    return before is not None and f"{before} ".startswith(f"{definition} ")

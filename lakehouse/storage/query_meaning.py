"""Meaning of a query when its first batch began: its tables belong to that meaning.

It is a manifest of the control store, with the query as it was written then, in one line.
"""

from __future__ import annotations

import json
from pathlib import Path

from lakehouse.config.problems import Permanent
from lakehouse.storage.control.manifests import Manifests, Row
from lakehouse.storage.damaged import RESTORE


class QueryChanged(Permanent, RuntimeError):
    """A query means something other than what its tables were made for."""


def read_definition(folder: Path) -> str | None:
    """Return what the query meant when its first batch began, None before that."""
    known = _read(folder)
    return known and known[0]


def replace_definition(folder: Path, definition: str, statement: str) -> None:
    """Record what the query's tables were made for, whatever was recorded before."""
    _of(folder).put(Row(1, "meaning", json.dumps([definition, statement], ensure_ascii=False)))


def _read(folder: Path) -> tuple[str, str] | None:
    row = _of(folder).read(1)
    if row is None:
        return None
    definition, statement = json.loads(row.body)
    return definition, statement


def _of(folder: Path) -> Manifests:
    return Manifests(
        folder, "meaning", f"{RESTORE}, or start over with `tidemark queries --forget {folder.name}`"
    )


def meanings(folder: Path, definition: str, statement: str) -> tuple[str, str] | None:
    """Return what the query's tables were made for and what it means now, both for people; None if they are the same.

    Both are the written texts, or definitions if the texts do not differ because only the declarations of streams do.
    """
    known = _read(folder)
    if known is None or known[0] == definition:
        return None
    before, written = known
    return (before, definition) if written == statement else (written, statement)


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


def is_of(folder: Path, definition: str) -> bool:
    """Return whether a query's pairs are of this meaning; the choice of slack is not part of it."""
    before = read_definition(folder)
    return before is not None and f"{before} ".startswith(f"{definition} ")

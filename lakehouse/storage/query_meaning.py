"""Meaning of a query when its first batch began: its tables belong to that meaning.

It is a manifest of the control store, with the query as it was written then, in one line.
"""

import json

from lakehouse.config.problems import Permanent
from lakehouse.storage.control.manifests import Manifests, Row
from lakehouse.storage.damaged import RESTORE
from lakehouse.storage.layout import Part


class QueryChanged(Permanent, RuntimeError):
    """A query means something other than what its tables were made for."""


def read_definition(part: Part) -> str | None:
    """Return what the query meant when its first batch began, None before that."""
    known = _read(part)
    return known and known[0]


def replace_definition(part: Part, definition: str, statement: str) -> None:
    """Record what the query's tables were made for, whatever was recorded before."""
    _of(part).put(Row(1, "meaning", json.dumps([definition, statement], ensure_ascii=False)))


def _read(part: Part) -> tuple[str, str] | None:
    row = _of(part).read(1)
    if row is None:
        return None
    definition, statement = json.loads(row.body)
    return definition, statement


def _of(part: Part) -> Manifests:
    return Manifests(
        part, "meaning", f"{RESTORE}, or start over with `tidemark queries --forget {part.name}`"
    )


def meanings(part: Part, definition: str, statement: str) -> tuple[str, str] | None:
    """Return what the query's tables were made for and what it means now, both for people; None if they are the same.

    Both are the written texts, or definitions if the texts do not differ because only the declarations of streams do.
    """
    known = _read(part)
    if known is None or known[0] == definition:
        return None
    before, written = known
    return (before, definition) if written == statement else (written, statement)


def require_same(part: Part, query: str, definition: str, statement: str) -> None:
    """Refuse a query that means something other than when its first batch began.

    Raises QueryChanged with what to do.
    """
    if changed := meanings(part, definition, statement):
        before, now = changed
        raise QueryChanged(
            f"query {query} has pairs and state of another meaning: it was {before}, it is {now} now; give "
            f"the new one a name of its own, or start over with `tidemark queries --forget {query}`"
        )
    if read_definition(part) is None:
        replace_definition(part, definition, statement)


def is_of(part: Part, definition: str) -> bool:
    """Return whether a query's pairs are of this meaning; the choice of slack is not part of it."""
    before = read_definition(part)
    return before is not None and f"{before} ".startswith(f"{definition} ")

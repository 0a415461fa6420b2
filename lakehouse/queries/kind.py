"""The kinds of registered query: one folder and one line of ``KINDS`` each.

A kind's folder has these files, each with the functions that the runtime calls by these names:

    query.py      the query as running it needs it: a frozen dataclass with ``kind``, the name of its kind (pure)
    parse.py      ``read``: the SELECT of a text -> the query, or faults (pure)
    describe.py   what the query does, in words (pure)
    run.py        ``run_of``: the query's batches, of which each is taken in exactly once (pyspark)
    repair.py     ``repair``: what batches have missed; none where nothing can be missed (pyspark)
    tables.py     its tables: ``create_tables``, ``drop_old_rows`` (pyspark)
    publish.py    ``snapshot_of``, ``write``: what is published of the query (duckdb)
    state.py      ``state_of``: the query as it stands (duckdb)
    explain.py    ``explain``: all that is known of it, as plain values (duckdb)
    text.py       what the command line prints of it
    checks.py     ``measure``: deviations of its tables, for rules to judge (pyspark)

Files are imported when they are asked for, so reading a configuration loads no engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Protocol

# Name of a kind -> its package. A new kind is one line here and the folder that it names.
KINDS: dict[str, str] = {
    "pairs": "lakehouse.queries.pairs",
    "multiway": "lakehouse.queries.multiway",
    "aggregate": "lakehouse.queries.aggregate",
    "selection": "lakehouse.queries.selection",
}


class HasKind(Protocol):
    """Anything that says which kind of query it belongs to."""

    @property
    def kind(self) -> str:
        """The name of the kind."""


@dataclass(frozen=True)
class Kind:
    """A kind of query, whose files are loaded when they are asked for."""

    name: str
    package: str

    def has(self, file: str) -> bool:
        """Tell if the kind has a file of this name."""
        return find_spec(f"{self.package}.{file}") is not None

    def file(self, name: str) -> ModuleType:
        """Return one of the kind's files as a module."""
        return import_module(f"{self.package}.{name}")


def kind_of(subject: HasKind) -> Kind:
    """Return the kind of a query, or of whatever belongs to one.

    Raises:
        KeyError: when no kind of this name is registered.
    """
    return Kind(subject.kind, KINDS[subject.kind])


def kinds() -> Iterator[Kind]:
    """Yield every registered kind."""
    for name, package in KINDS.items():
        yield Kind(name, package)

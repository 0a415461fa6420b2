"""What every registered query has, and the kinds of query: one folder and one line of ``KINDS`` each.

A kind's folder has these files, each with the names that the rest of the house calls:

    query.py      the query as running it needs it: a frozen dataclass under ``Query`` (pure)
    parse.py      ``GRAMMAR``: how a text of this kind is known, and the clauses that it may have;
                  ``read``: the SELECT of a text -> the query, or faults (pure)
    sites.py      ``site_problems``: what [sites], where there is one, and the kind's queries lack of each
                  other; optional (pure)
    describe.py   what the query does, in words (pure)
    run.py        ``run_of``: the query's batches, of which each is taken in exactly once (pyspark)
    repair.py     ``Repair``: what batches have missed, a ``QueryRepair``; no file where nothing can be missed (pyspark)
    tables.py     its tables: ``create_tables``, and ``drop_old_rows`` where rows of its own grow old (pyspark)
    publish.py    ``snapshot_of``: what is published of the query, a ``QuerySnapshot`` that writes itself (duckdb)
    state.py      ``state_of``: the query as it stands, a ``QueryState`` (duckdb)
    explain.py    ``explain``: what is known of this kind alone, as plain values (duckdb)
    checks.py     ``open_tables``: its tables as ``QueryTables``, whose deviations rules judge (pyspark)
    text.py       what the command line prints: ``TITLE``, ``HEADERS`` and ``cells`` of the list; ``plan_in_words``,
                  ``tables``, ``HEADING``, ``found_in_words`` and ``last_tables`` of the explanation
    page.py       ``page_of``: the explanation as a page with charts; no file where there is no such page
    README.md     what the kind answers, what is guaranteed, which file does what

Files are imported when they are asked for, so reading a configuration loads no engine.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import ClassVar, Protocol

from lakehouse.queries.language.row_conditions import Conditioned, Conjunct, scanned

# A new kind is one line here, its name and its package, and the folder that it names.
KINDS: dict[str, str] = {
    "pairs": "lakehouse.queries.pairs",
    "multiway": "lakehouse.queries.multiway",
    "aggregate": "lakehouse.queries.aggregate",
    "selection": "lakehouse.queries.selection",
}
# What a scan reads of a raw row for any kind whose rows go on to Spark, whatever the query says.
KEPT = ("event_us", "arrival_us", "batch", "source_file", "source_line", "source_item")
# How long after the work on a batch began its rows are to be out, where a query does not say.
DEADLINE_US = 10_000_000
_BLANK_OR_QUOTE = re.compile(
    r"""(?P<blank>(?:\s|--[^\n]*|/\*.*?\*/)+)|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`""", re.DOTALL
)


class Side(Conditioned, Protocol):
    """One of the streams that a query reads, under an alias."""

    @property
    def stream(self) -> str:
        """The name of the stream."""

    @property
    def alias(self) -> str:
        """What the query calls it."""


@dataclass(frozen=True)
class Output:
    """A column of the query's own: a column of the raw table of a side, numbered in the order of FROM."""

    name: str
    side: int
    column: str


@dataclass(frozen=True)
class RowScan:
    """What of a side is read row by row, in scans that queries share.

    ``conjuncts``: all conditions on its rows, in the written order. ``columns``: those wanted of the rows that are let
    through. ``deadline_us``: how long after the work on a batch began they are to be out.
    """

    conjuncts: tuple[Conjunct, ...]
    columns: tuple[str, ...]
    deadline_us: int = DEADLINE_US


@dataclass(frozen=True)
class Query(ABC):
    """A registered query of any kind; ``description``: the comment above its text.

    ``kernel``: what takes in the rows that shared scans let through, in words. None of a kind that only appends them:
    what its scan measured are the metrics of its batch, in the table ``queries``.
    """

    kind: ClassVar[str]
    kernel: ClassVar[str | None] = "its join"
    name: str
    text: str
    description: str
    sides: tuple[Side, ...]

    @property
    def streams(self) -> tuple[str, ...]:
        """The stream of each side."""
        return tuple(side.stream for side in self.sides)

    @property
    def statement(self) -> str:
        """The query as it was written, in one line, for people; what is stored and compared is its definition.

        Comments and runs of white space become one space, quoted text stays.
        """
        line = _BLANK_OR_QUOTE.sub(_in_one_line, self.text.lstrip("\ufeff"))
        return line.strip().rstrip(";").rstrip()

    @abstractmethod
    def definition(self) -> str:
        """What the results and the state depend on, as one line; texts that mean the same give the same line."""

    @abstractmethod
    def how(self) -> str:
        """How the results are found, as far as the state depends on it."""

    def columns_of(self, side: int) -> set[str]:
        """Return the columns that the query reads of a side's raw rows, but for those of its conditions."""
        raise NotImplementedError(f"a query of kind {self.kind} reads no side row by row")

    def row_scans(self) -> Mapping[int, RowScan]:
        """Return, by side, what is read row by row; conditions on the other sides are left to Spark's SQL."""
        return {
            side: RowScan(self.sides[side].conjuncts, tuple(sorted({*KEPT, *self.columns_of(side)})))
            for side in scanned(self.sides)
        }


def _in_one_line(found: re.Match[str]) -> str:
    return " " if found["blank"] else found[0].replace("\n", "\\n")


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

"""Kinds of registered queries, one folder and one declaration in ``KINDS`` each, and what every query has.

A declaration names the kind's tables and metrics; what all kinds do with them is in ``runtime``. A kind's folder has
these files, each with the names that other modules call:

    query.py      the query as a value, a frozen dataclass under ``Query``, and what it does in words (pure)
    parse.py      ``GRAMMAR``: how a text of this kind is recognised, and its clauses;
                  ``read``: the SELECT of a text -> the query, or faults (pure)
    sites.py      ``site_problems``: what is missing in [sites], if there is one, or in the kind's queries;
                  optional (pure)
    run.py        ``run_of``: the query's batches, each of which is processed exactly once, on an engine
    repair.py     ``Repair``: a ``QueryRepair`` that finds missed results; absent if none can be missed
    tables.py     optional: ``own_tables`` if it has more than its results; ``tables_of``: a class under ``QueryTables``
                  if rules judge more than its batches and its recall; ``drop_old_rows`` if rows of its own expire
    publish.py    optional: ``snapshot_of``: a ``QuerySnapshot``, if more is published than its rows and its recall
    state.py      ``state_of``: the present state of the query, a ``QueryState``;
                  ``explain``: the part of an explanation that only this kind has, as plain values (duckdb)
    README.md     what the kind answers, what it guarantees, and the contents of each file

``lakehouse/cli/queries`` prints each kind. Files are imported on first use: to read a configuration loads no engine.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Protocol

# The columns of a raw row that a scan always reads for kinds whose rows go on to a kernel.
KEPT = ("event_us", "arrival_us", "batch", "source_file", "source_line", "source_item")
# By side, columns with a time, a file, a line and an item.
RestsOn = tuple[tuple[str, ...], ...]
# The default deadline: how long after the start of the work on a batch its rows should be output.
DEADLINE_US = 10_000_000
_BLANK_OR_QUOTE = re.compile(
    r"""(?P<blank>(?:\s|--[^\n]*|/\*.*?\*/)+)|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`""", re.DOTALL
)


@dataclass(frozen=True)
class PythonCall:
    """A predicate of the operator's own: the function ``name`` in a file; ``by_row``: asked with one row's values."""

    name: str
    path: Path
    by_row: bool


@dataclass(frozen=True)
class Conjunct:
    """One condition of WHERE, which each row alone decides.

    ``text``: SQL over the raw table's columns, or the call of a predicate: conditions of equal text are the same.
    ``columns``: what it reads, of a call in the order of its arguments.
    """

    text: str
    columns: tuple[str, ...]
    call: PythonCall | None = None


@dataclass(frozen=True)
class Side:
    """One of the streams that a query reads, under an alias, and the conditions that each of its rows alone decides.

    Where all of them are comparisons they are one text of SQL over the raw table's columns, ``where``. Where one calls
    a predicate, they are ``conjuncts`` instead, in the written order, which cannot be one text.
    """

    stream: str
    alias: str
    where: str | None = field(default=None, kw_only=True)
    conjuncts: tuple[Conjunct, ...] = field(default=(), kw_only=True)


def in_one_order(conjuncts: Iterable[Conjunct]) -> str | None:
    """Return conditions as one text, whichever way they were written; None for none."""
    return " AND ".join(sorted(each.text for each in conjuncts)) or None


def of_side(conjuncts: Collection[Conjunct]) -> dict[str, Any]:
    """Return ``where`` or ``conjuncts`` of the side that these are all conditions on."""
    has_call = any(each.call for each in conjuncts)
    return {"conjuncts": tuple(conjuncts)} if has_call else {"where": in_one_order(conjuncts)}


def where_of(side: Side) -> str | None:
    """Return what WHERE says of a side, calls included; None for nothing."""
    return in_one_order(side.conjuncts) or side.where


def scanned(sides: Sequence[Side]) -> list[int]:
    """Return which sides are read row by row, in scans that queries share: those of which one condition is a call."""
    return [number for number, side in enumerate(sides) if side.conjuncts]


def where_text(side: Side) -> str:
    """Return what WHERE says of a side, as definitions have it.

    What a predicate's file says is no part of it: a mended one goes on where the old one stopped.
    """
    return where_of(side) or "true"


@dataclass(frozen=True)
class Output:
    """A column that the query shows: a column of the raw table of a side. Sides are numbered in the order of FROM."""

    name: str
    side: int
    column: str


@dataclass(frozen=True)
class RowScan:
    """The part of a side that is read row by row, in scans that queries share.

    ``conjuncts``: all conditions on its rows, in the written order. ``columns``: the columns to return of the rows
    that pass. ``deadline_us``: how long after the start of the work on a batch the rows should be output.
    """

    conjuncts: tuple[Conjunct, ...]
    columns: tuple[str, ...]
    deadline_us: int = DEADLINE_US


@dataclass(frozen=True)
class Query(ABC):
    """A registered query of any kind; ``description``: the comment above its text.

    ``kernel``: the operator that processes the rows of shared scans, in words. A kind that only appends these rows
    has none; the measurements of its scan are then the metrics of its batch, in the table ``queries``.
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
        """The query as it was written, in one line, for people. Its definition is what is stored and compared.

        Comments and runs of white space become one space; quoted text stays.
        """
        line = _BLANK_OR_QUOTE.sub(_in_one_line, self.text.lstrip("\ufeff"))
        return line.strip().rstrip(";").rstrip()

    @property
    def is_once(self) -> bool:
        """True if a batch processes each row once."""
        return True

    @abstractmethod
    def definition(self) -> str:
        """Definition that results and state depend on, as one line; texts that mean the same give the same line."""

    @abstractmethod
    def how(self) -> str:
        """Method of finding results, as far as the state depends on it."""

    def columns_of(self, side: int) -> set[str]:
        """Return the columns of a side's raw rows that the query reads, other than those of its conditions."""
        raise NotImplementedError(f"a query of kind {self.kind} reads no side row by row")

    def row_scans(self) -> Mapping[int, RowScan]:
        """Return, by side, the scans that read row by row; the conditions on other sides are one SQL text."""
        return {
            side: RowScan(self.sides[side].conjuncts, tuple(sorted({*KEPT, *self.columns_of(side)})))
            for side in scanned(self.sides)
        }


def _in_one_line(found: re.Match[str]) -> str:
    return " " if found["blank"] else found[0].replace("\n", "\\n")


def definition_of(query: Query) -> str:
    """Return what the tables of a query depend on, as one line."""
    return f"{query.definition()} {query.how()}"


def written_as(query: Query) -> str:
    """Return a query as it was written, and how it runs, as one line for people."""
    return f"{query.statement} {query.how()}"


class HasKind(Protocol):
    """Any object that says which kind of query it belongs to."""

    @property
    def kind(self) -> str:
        """The name of the kind."""


@dataclass(frozen=True)
class Kind:
    """A kind of query: its tables and metrics, and its files, which are loaded on first use.

    ``results``: the table of its results, in the home and in sql/tables; of published rows in sql/serving too.
    ``batches``: the table of sql/tables with its metrics, of which a batch has a row for each ``partition``.
    ``metrics``: those that its state reads besides the common ones. ``counted``: those that add up to the results of
    a batch. ``sums``: those that are published as sums, by their columns in ``queries``; ``newest``: those with event
    times, or lists of them; ``settings``: what is published of the query as it was written; ``step``: its setting by
    whose multiples results are published. ``rests_on``: the columns of results with times and places of the rows that
    they are made of, by side, or as lists of all sides; none of a kind that recomputes its results. ``rows_are``,
    ``row``: what the published rows, and the rows of a side, are for people. ``time``: by which column they belong to
    periods of a recall; ``whole``, ``at_once``: SQL for what a row adds to all, and to those at once.
    """

    name: str
    package: str
    results: str
    batches: str
    counted: tuple[str, ...]
    sums: Mapping[str, str]
    partition: str = "bucket"
    metrics: tuple[str, ...] = ()
    newest: tuple[str, ...] = ("newest_us",)
    settings: tuple[str, ...] = ()
    step: str | None = None
    rests_on: RestsOn = ()
    rows_are: str = "The rows of"
    row: str = "the row of {stream}"
    time: str = "event_us"
    whole: str = "1"
    at_once: str = "(found = 'online')::INT"

    def has(self, file: str) -> bool:
        """Return whether the kind has a file of this name."""
        return find_spec(f"{self.package}.{file}") is not None

    def file(self, name: str) -> ModuleType:
        """Return one of the kind's files as a module."""
        return import_module(f"{self.package}.{name}")

    def part(self, file: str, name: str, default: Any) -> Any:
        """Return a name of one of its optional files; the default if the kind lacks it."""
        return getattr(self.file(file), name, default) if self.has(file) else default


# Of a condition, and of the batch as a whole, in the table ``operators``.
OPERATOR = (
    *("name", "position", "taken", "passed", "busy_us", "handled_per_s", "selectivity", "priority"),
    *("slice_us", "waited"),
)
BATCH = (
    *("selected", "pieces", "misses", "delay_us", "worst_delay_us", "arrived_per_s", "switch_us"),
    *("tau_us", "changes", "tasks", "together", "queue_bytes"),
)
# To add a kind, add its declaration, and the folder.
_DECLARED = (
    Kind(
        "pairs",
        "lakehouse.queries.pairs",
        results="pairs",
        batches="pairs_batches",
        counted=("pairs",),
        sums={"rows_found": "pairs"},
        metrics=("pairs", "late_after_silence", "most_held", "left_slack_us", "right_slack_us"),
        newest=("left_newest_us", "right_newest_us"),
        settings=("window_us", "recall", "period_us", "step_us"),
        step="step_us",
        rests_on=(
            ("left_us", "left_file", "left_line", "left_item"),
            ("right_us", "right_file", "right_line", "right_item"),
        ),
        rows_are="The pairs of",
        row="the {place} row, of {stream}",
    ),
    Kind(
        "multiway",
        "lakehouse.queries.multiway",
        results="multiway",
        batches="multiway_batches",
        counted=("results",),
        sums={"rows_found": "results"},
        partition="side",
        metrics=(
            *("slack_us", "visits", "joined", "why", "planned", "moved", "planned_cost", "real_cost"),
            *("results", "shuffled", "collected"),
        ),
        settings=("slack_us", "window_us", "recall", "period_us", "step_us"),
        step="step_us",
        rests_on=(("times_us", "row_files", "row_lines", "row_items"),),
        rows_are="The results of",
        row="the row of {alias}, of {stream}",
    ),
    Kind(
        "aggregate",
        "lakehouse.queries.aggregate",
        results="answers",
        batches="aggregate_batches",
        counted=("answered", "revised"),
        sums={"answered": "answered", "revised": "revised", "late": "late"},
        metrics=("answered", "revised", "late", "newest_us"),
        settings=("every_us", "slack_us", "method", "recall", "period_us", "step_us"),
        step="every_us",
        row="{stream}: one of GROUP BY",
        time="tick_us",
        whole="(counted_as IN ('online', 'late', 'repair'))::INT",
        at_once="CASE WHEN counted_as = 'online' THEN 1 WHEN counted_as LIKE 'revised%' THEN -1 ELSE 0 END",
    ),
    Kind(
        "selection",
        "lakehouse.queries.selection",
        results="selection",
        batches="operators",
        counted=("selected",),
        sums={"rows_found": "selected"},
        partition="operator",
        metrics=(*OPERATOR, *BATCH),
        newest=("time_us",),
        rests_on=(("event_us", "source_file", "source_line", "source_item"),),
        rows_are="The rows selected by",
    ),
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _DECLARED}


def kind_of(subject: HasKind) -> Kind:
    """Return the kind of a query, or of any object that belongs to one.

    Raises KeyError if no kind of this name is registered.
    """
    return KINDS[subject.kind]


def kinds() -> Iterator[Kind]:
    """Yield every registered kind."""
    yield from KINDS.values()


def reach_of(query: Query) -> int:
    """Return the widest window of a query, 0 for none."""
    return max(getattr(each, "window_us", 0) for each in (query, *query.sides))

"""One range question as a value: which questions are allowed or refused, and what an answer is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from lakehouse.config.durations import iso_timestamp
from lakehouse.serving.literals import text

if TYPE_CHECKING:
    import duckdb

INCREASE = "increase"
AGGREGATES = ("sum", "count", "avg", "min", "max")
# Names that other tools have for them.
ALIASES = {"mean": "avg", "average": "avg", "total": "sum", "minimum": "min", "maximum": "max"}
ALIASES |= {
    "least": "min",
    "greatest": "max",
    "n": "count",
    "rows": "count",
    "delta": INCREASE,
    "growth": INCREASE,
}
_NUMBERS = count()
Timestamp = str | int | date | datetime
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
T = TypeVar("T")
# A published file never changes: what is read of it is kept with the connection.
_KEPT: WeakKeyDictionary[duckdb.DuckDBPyConnection, dict[Hashable, Any]] = WeakKeyDictionary()


class AskError(ValueError):
    """A question that cannot be answered; the message names what was expected."""


class UnknownName(AskError):
    """A stream, measure, key, query, output, group or aggregate that does not exist; the message names others."""


class UnknownStream(UnknownName):
    """A stream that is not published; ``among``: those that are."""

    def __init__(self, stream: str, among: Sequence[str]) -> None:
        super().__init__(unknown("stream", stream, among))
        self.stream, self.among = stream, among


@dataclass(frozen=True)
class Question:
    """A question; times in microseconds UTC, half-open.

    ``aggregate`` may be empty until ``with_default`` fills it in. ``where`` holds the keys' values as text. ``limit``:
    only the first answers in the order of their keys. ``exact``:
    raw rows are read if the nodes alone leave an interval.
    """

    stream: str
    measure: str
    aggregate: str
    start_us: int
    end_us: int
    where: dict[str, str | None] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    limit: int | None = None
    exact: bool = False

    @property
    def keys(self) -> set[str]:
        """The keys that a grouping must hold to answer."""
        return {*self.where, *self.by}


@dataclass(frozen=True)
class Answer:
    """An estimate and an interval that is sure to hold the truth; a side is None if nothing can be promised.

    ``exact``: the sides are equal, apart from rounding. ``exact_value``: all digits of an exact result of whole numbers
    or decimals, as text for ``Decimal``; None of doubles and averages. ``rows``: about how many values it is made from,
    surely between ``rows_low`` and ``rows_high``, which is None if the last level has deleted some.
    ``final``: the range ends more than ``latest`` before the stream's newest time. ``key`` holds the values of the
    keys asked by, as text. ``unchecked``: at most so many of the rows may repeat others, as they came when the
    identities of their time were no longer known; the interval holds the value without them and the one with them,
    and the answer is neither exact nor final. ``ambiguous``: so many rejected rows, whose local time comes twice, may
    be inside; likewise. ``withheld``: a sentence if newer data of the stream are withheld.
    """

    value: float | None
    low: float | None
    high: float | None
    exact: bool
    exact_value: str | None
    rows: int
    nodes_read: int
    finest_granularity_us: int | None
    as_of_version: int
    key: dict[str, str | None]
    grouping: list[str]
    final: bool
    rows_low: int
    rows_high: int | None
    unchecked: int = 0
    ambiguous: int = 0
    withheld: str | None = None


def order(found: Answer) -> list[tuple[bool, str]]:
    """Return the sort key of answers: their key's values, missing ones last."""
    return [(value is None, value or "") for value in found.key.values()]


def microseconds(timestamp: Timestamp) -> int:
    """Return microseconds since the epoch; a time without an offset is UTC. Raises AskError if the text is no time."""
    if isinstance(timestamp, int):
        return timestamp
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp.strip())
        except ValueError:
            raise AskError(
                f"expected a time such as 2020-07-13, 2020-07-13T06:00 or 2020-07-13T06:00+02:00, found {timestamp!r}"
            ) from None
    if not isinstance(timestamp, datetime):
        timestamp = datetime(timestamp.year, timestamp.month, timestamp.day, tzinfo=UTC)
    aware = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def values_as_text(where: Mapping[str, object] | None) -> dict[str, str | None]:
    """Return the values of keys as text, in the form of the published file; true and false as in JSON."""

    def as_text(value: object) -> str | None:
        return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    return {name: as_text(value) for name, value in (where or {}).items()}


def check_range(start_us: int, end_us: int) -> None:
    """Refuse an empty range. Raises AskError naming both ends."""
    if start_us >= end_us:
        start, end = iso_timestamp(start_us), iso_timestamp(end_us)
        raise AskError(f"the range must begin before it ends: from {start} to {end} is empty")


def aggregate_named(name: str) -> str:
    """Return the name of an aggregate that there is. Raises UnknownName with the one that is probably meant."""
    if name not in (*AGGREGATES, INCREASE):
        raise UnknownName(unknown("aggregate", name, (*AGGREGATES, INCREASE)))
    return name


def default_aggregate(connection: duckdb.DuckDBPyConnection, stream: str, measure: str) -> str:
    """Return the aggregate of a measure that is asked for where none is named.

    That is the increase of a counter, the sum of a measure that is declared to add up, else the average; of rows the
    count. A measure that does not exist is for ``check`` to refuse.
    """
    found = _rows(connection, f"SELECT measure, default_agg FROM measures WHERE stream = {text(stream)}")
    return str(dict(found).get(measure, "count"))


def with_default(connection: duckdb.DuckDBPyConnection, question: Question) -> Question:
    """Return the question with the default aggregate of its measure where it names none."""
    if question.aggregate:
        return question
    return replace(question, aggregate=default_aggregate(connection, question.stream, question.measure))


def check(connection: duckdb.DuckDBPyConnection, question: Question) -> None:
    """Refuse a question about something that is not published.

    Raises UnknownName naming what does not exist and what does; AskError naming what is wrong and what was expected.
    """
    aggregate_named(question.aggregate)
    streams = dict(_rows(connection, "SELECT stream, key_names FROM streams ORDER BY stream"))
    if question.stream not in streams:
        if withheld := withheld_of(connection, question.stream):
            raise UnknownName(withheld)
        raise UnknownStream(question.stream, list(streams))
    found = _rows(
        connection, f"SELECT measure, is_counter FROM measures WHERE stream = {text(question.stream)}"
    )
    measures, counters = [row[0] for row in found], [row[0] for row in found if row[1]]
    if question.measure not in measures:
        raise UnknownName(unknown(f"measure of {question.stream}", question.measure, measures))
    if question.measure == "*" and question.aggregate != "count":
        raise AskError(f"* counts rows: ask for its count, or for the {question.aggregate} of {measures[1:]}")
    if question.aggregate == "sum" and question.measure in counters:
        raise AskError(
            f"{question.measure} of {question.stream} is a counter, whose readings do not add up: "
            "ask for its increase, or for avg, min or max of the readings"
        )
    if question.aggregate == INCREASE and question.measure not in counters:
        known = (
            f"the counters of {question.stream} are {counters}" if counters else "the stream declares none"
        )
        raise AskError(f"only counters have an increase, {question.measure} is none: {known}")
    for name in (*question.where, *question.by):
        if name not in streams[question.stream]:
            raise UnknownName(unknown(f"key of {question.stream}", name, streams[question.stream]))
    _check_range_and_grouping(connection, question)


def withheld_of(connection: duckdb.DuckDBPyConnection, stream: str) -> str | None:
    """Return a sentence for people if a stream's newest state is withheld: since when, why, and what is published.

    Every answer about the stream has it, wherever it is shown.
    """
    asked = f"SELECT since_us, because, published_batch FROM withheld WHERE stream = {text(stream)}"
    for since_us, because, batch in _rows(connection, asked):
        why = f"withheld since {iso_timestamp(since_us)} because {because}"
        if batch is None:
            return f"stream {stream!r} is not published: {why}"
        return f"newer data of {stream} are {why}; answers are as of batch {batch}"
    return None


def _check_range_and_grouping(connection: duckdb.DuckDBPyConnection, question: Question) -> None:
    check_range(question.start_us, question.end_us)
    rows = _rows(connection, f"SELECT groupings FROM ladder WHERE stream = {text(question.stream)} LIMIT 1")
    declared: list[dict[str, Any]] = rows[0][0] if rows else []
    if not any(question.keys <= set(grouping["key_names"]) for grouping in declared):
        names = [grouping["key_names"] for grouping in declared]
        raise AskError(
            f"no grouping of {question.stream} holds the keys {sorted(question.keys)} together; declared: {names}"
        )


def _rows(connection: duckdb.DuckDBPyConnection, statement: str) -> list[tuple[Any, ...]]:
    return kept(connection, statement, lambda: connection.execute(statement).fetchall())


def kept(connection: duckdb.DuckDBPyConnection, key: Hashable, make: Callable[[], T]) -> T:
    """Return what ``make`` made for a key of a connection, which calls it once."""
    known = _KEPT.setdefault(connection, {})
    if key not in known:
        known[key] = make()
    made: T = known[key]
    return made


def planned(connection: duckdb.DuckDBPyConnection, statement: str) -> str:
    """Return the name of a prepared statement, which a connection plans once.

    DuckDB plans a statement anew for each question if a filter compares with one of its parameters. Values that come as
    rows of a list, which are joined, leave the plan as it is.
    """

    def prepare() -> str:
        name = f"planned_{next(_NUMBERS)}"
        connection.execute(f"PREPARE {name} AS {statement}")
        return name

    return kept(connection, ("planned", statement), prepare)


def unknown(what: str, name: str, among: Sequence[str]) -> str:
    """Return the message about a name that is not published, with the nearest that is.

    >>> unknown("stream", "nope", ["flows", "telemetry"])
    "no stream 'nope'. There are: flows, telemetry"
    """
    from difflib import get_close_matches

    close = get_close_matches(name, among, n=1, cutoff=0.7)
    meant = ALIASES.get(name) if ALIASES.get(name) in among else close[0] if close else None
    hint = f"; did you mean {meant!r}?" if meant else "."
    return f"no {what} {name!r}{hint} There are: {', '.join(among) or 'none'}"

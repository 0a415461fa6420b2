"""A registered query that keeps aggregates of a window join current: what running it needs, and words for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal

from lakehouse.algorithms.late_join.margin import judged_share, usual_margin
from lakehouse.config.durations import format_duration
from lakehouse.queries.kind import Output, Query, Side, where_text
from lakehouse.queries.language.text import DIALECT
from lakehouse.queries.language.words import clock_in_words

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Aggregate, Shape

Function = Literal["count", "sum", "avg", "min", "max"]
Method = Literal["factorised", "view_tree", "multiway", "tuple_count", "incremental"]
_NUMBER = re.compile(r"CAST\((.*) AS (?:DOUBLE|BIGINT|DECIMAL\(38, [0-9]+\))\)")
_EXACT = re.compile(r"CAST\(`[^`]+` AS (BIGINT|DECIMAL\(38, ([0-9]+)\))\)")
_PRESENCE = re.compile(r"CASE WHEN NOT (`[^`]+`) IS NULL THEN CAST\(1 AS DOUBLE\) END")
_COLUMN_AS_NUMBER = re.compile(r"CAST\((`[^`]+`) AS DOUBLE\)")
_COLUMN = re.compile(r"`([^`]+)`")
_NO_LAST_ROW = "it takes rows away again, and RECALL keeps when the last row of each answer came"


@dataclass(frozen=True)
class Input(Side):
    """One side of the join.

    A row is in the window while the tick is at most ``window_us`` after it. ``keys``: the columns of its join
    attributes, each with the attribute's number; columns of different sides that must be equal have one number.
    ``values``: what aggregates read, as SQL over the raw table's columns: a column of type int or decimal in its own
    type, all else as a double.
    """

    window_us: int
    keys: tuple[tuple[int, str], ...]
    values: tuple[str, ...]


@dataclass(frozen=True)
class Measure:
    """An aggregate that SELECT or HAVING names: a function of a side's value, by its place in ``Input.values``.

    COUNT(*) is ``count`` with no value. ``is_shown``: it is an output; else only HAVING reads it, by this name.
    """

    name: str
    function: Function
    side: int = 0
    value: int | None = None
    is_shown: bool = True


@dataclass(frozen=True)
class Value:
    """A value of a side as methods take it: its first column, and what aggregates ask of it ([values.py](values.py)).

    ``scale``: digits after the point, None for a double. ``is_whole``: it is of type int. ``is_added``: there is a SUM
    or AVG of it; ``has_extremes``: a MIN or MAX.
    """

    first: int
    scale: int | None
    is_whole: bool
    is_added: bool
    has_extremes: bool

    @property
    def type(self) -> str:
        """Stored type, which is that of its extremes."""
        return "double" if self.scale is None else "bigint" if self.is_whole else f"decimal(38,{self.scale})"

    @property
    def columns(self) -> int:
        """Number of its columns."""
        return 3 + self.has_extremes if self.scale is None and self.is_added else self.limbs

    @property
    def limbs(self) -> int:
        """Number of the columns that make one number, of which only the first is counted."""
        if self.scale is None or not (self.is_added or self.has_extremes):
            return 1
        return 2 if self.is_whole else 3


@dataclass(frozen=True)
class AggregateQuery(Query):
    """A registered join-aggregate, answered every ``every_us`` at whole multiples of that since 1970.

    Sides, join attributes and values are in an order that does not depend on how the query is written.
    ``groups``: the columns of GROUP BY, under the names that answers have for them.
    ``having``: Spark SQL over names of groups and measures; None for all. ``slack_us``: how far behind the last tick
    late rows still revise answers at once; older ones wait for the repair. ``idle_us``: a stream whose newest row is
    further behind another's no longer holds ticks back. ``ahead_us``: rows further ahead of their own arrival are
    refused. ``method``: what runs it, chosen unless ``is_forced``; ``why`` says by what. ``is_alarm``: groups that
    HAVING lets through raise alarms. With ``recall``, ticks wait before they are answered, as long as this share of the
    answers of any ``period_us`` needs for no later row to revise them.
    """

    kind: ClassVar[str] = "aggregate"
    kernel: ClassVar[str | None] = "its aggregates"
    sides: tuple[Input, ...]
    groups: tuple[Output, ...]
    measures: tuple[Measure, ...]
    having: str | None
    every_us: int
    slack_us: int
    idle_us: int | None
    ahead_us: int | None
    method: Method
    is_forced: bool
    why: str
    is_alarm: bool
    recall: float | None = None
    period_us: int | None = None

    @property
    def bucketed_by(self) -> tuple[int, ...]:
        """The join attributes that all sides carry: rows that join agree in them. None: one bucket holds all."""
        carried = [{number for number, _ in side.keys} for side in self.sides]
        return tuple(sorted(set.intersection(*carried)))

    @property
    def window_us(self) -> int:
        """The widest window."""
        return max(side.window_us for side in self.sides)

    @property
    def step_us(self) -> int | None:
        """Time from the start of one period to the next: the ticks; None without a recall."""
        return None if self.recall is None else self.every_us

    @property
    def spare_rows(self) -> int:
        """None: answers that wait longer than they need are no better."""
        return 0

    def definition(self) -> str:
        """Definition that answers and state depend on, as one line; texts that mean the same give the same line."""
        sides = " JOIN ".join(
            f"{side.stream} [{format_duration(side.window_us)}] WHERE {where_text(side)}"
            f" KEYS [{', '.join(f'{number} = {column}' for number, column in side.keys)}] BY VALUE"
            f" VALUES [{', '.join(side.values)}]"
            for side in self.sides
        )
        groups = ", ".join(f"{each.name} = {each.side}.{each.column}" for each in self.groups)
        measures = ", ".join(
            f"{each.name} = {each.function}({'*' if each.value is None else f'{each.side}.{each.value}'})"
            for each in self.measures
        )
        limits = (self.every_us, self.slack_us, self.idle_us, self.ahead_us)
        every, slack, idle, ahead = ("never" if us is None else format_duration(us) for us in limits)
        if self.period_us is not None:
            slack += f" BY PERIOD {format_duration(self.period_us)}"
        whole = (
            f"{sides} GROUPS [{groups}] MEASURES [{measures}] HAVING {self.having or 'true'} EVERY {every}"
            f" SLACK {slack} IDLE {idle} AHEAD {ahead} ALARM {self.is_alarm}"
        )
        return whole.replace("\n", "\\n")

    def how(self) -> str:
        """Method that keeps the aggregates."""
        return f"METHOD {self.method}"

    def columns_of(self, side: int) -> set[str]:
        """Return the columns of the keys, of GROUP BY, and those that aggregates read."""
        from sqlglot import exp, parse_one

        own = self.sides[side]
        values = (parse_one(sql, dialect=DIALECT).find_all(exp.Column) for sql in own.values)
        groups = (group.column for group in self.groups if group.side == side)
        return {
            *(column for _, column in own.keys),
            *(each.name for found in values for each in found),
            *groups,
        }


def shape_of(query: AggregateQuery) -> Shape:
    """Return what a query is to a method; its aggregates do not depend on the order of SELECT."""
    from lakehouse.algorithms.join_aggregate.contract import Shape

    grouped = {group.side for group in query.groups}
    return Shape(
        attributes=tuple(tuple(number for number, _ in side.keys) for side in query.sides),
        grouped=tuple(side in grouped for side in range(len(query.sides))),
        aggregates=(*_aggregates(query), *_last_came(query)),
    )


def places_of_last_came(query: AggregateQuery) -> range:
    """Return which of the shape's aggregates tell by side when the last row of an answer came; with a recall only."""
    first = len(_aggregates(query))
    return range(first, first + len(_last_came(query)))


def _last_came(query: AggregateQuery) -> tuple[Aggregate, ...]:
    from lakehouse.algorithms.join_aggregate.contract import Aggregate

    sides = range(0 if query.recall is None else len(query.sides))
    return tuple(Aggregate("max", side, width_of(query) - 1) for side in sides)


def places_of(query: AggregateQuery) -> tuple[tuple[int, ...], ...]:
    """Return for every measure which of the shape's aggregates have its figures; for COUNT(*) there are none."""
    aggregates = _aggregates(query)
    return tuple(tuple(map(aggregates.index, _made_of(query, measure))) for measure in query.measures)


def _aggregates(query: AggregateQuery) -> list[Aggregate]:
    found = {each for measure in query.measures for each in _made_of(query, measure)}
    return sorted(found, key=lambda each: (each.side, each.column, each.function))


def _made_of(query: AggregateQuery, measure: Measure) -> Iterator[Aggregate]:
    """Yield the aggregates of which a measure is made: a sum of doubles counts both infinities too."""
    from lakehouse.algorithms.join_aggregate.contract import Aggregate

    if measure.value is None:
        return
    value = values_of(query)[measure.side][measure.value]
    # An average is a sum, beside which every partial has how many values are in it.
    function = "sum" if measure.function == "avg" else measure.function
    first = value.first + (value.columns - value.limbs if function in ("min", "max") else 0)
    yield Aggregate(function, measure.side, first, 1 if function == "count" else value.limbs)
    if function == "sum" and value.scale is None:
        yield from (Aggregate("count", measure.side, value.first + sign) for sign in (1, 2))


@lru_cache(maxsize=256)
def values_of(query: AggregateQuery) -> tuple[tuple[Value, ...], ...]:
    """Return the values of each side, with the columns that aggregates need of them."""
    return tuple(tuple(_values(query, side)) for side in range(len(query.sides)))


def _values(query: AggregateQuery, side: int) -> Iterator[Value]:
    first = 0
    for number, text in enumerate(query.sides[side].values):
        own = {each.function for each in query.measures if (each.side, each.value) == (side, number)}
        exact, asked = _EXACT.fullmatch(text), (bool(own & {"sum", "avg"}), bool(own & {"min", "max"}))
        if exact is None:
            value = Value(first, None, False, *asked)
        else:
            value = Value(first, int(exact[2] or 0), exact[1] == "BIGINT", *asked)
        yield value
        first += value.columns


def width_of(query: AggregateQuery) -> int:
    """Return how many columns of numbers the rows of all sides have; with a recall the last says when they came."""
    return max(sum(value.columns for value in side) for side in values_of(query)) + (query.recall is not None)


def equalities_in_words(query: AggregateQuery) -> str:
    """Return which columns must be equal for rows to join, attribute by attribute."""
    return " and ".join(_equal(query, number) for number in _attributes(query))


def measure_in_words(query: AggregateQuery, measure: Measure) -> str:
    """Return an aggregate as it could be written."""
    if measure.value is None:
        return f"{measure.function}(*)"
    return f"{measure.function}({value_in_words(query, measure.side, measure.value)})"


def value_in_words(query: AggregateQuery, number: int, place: int) -> str:
    """Return a value of a side as it could be written."""
    side = query.sides[number]
    value = side.values[place]
    if found := _PRESENCE.fullmatch(value) or _NUMBER.fullmatch(value):
        value = found[1]
    value = _COLUMN_AS_NUMBER.sub(r"\1", value)
    return _COLUMN.sub(lambda name: f"{side.alias}.{name[1]}", value)


def groups_in_words(query: AggregateQuery) -> str:
    """Return the columns of GROUP BY under the names of the answers; all results are one group without any."""
    columns = [(each.name, f"{query.sides[each.side].alias}.{each.column}") for each in query.groups]
    return (
        ", ".join(
            column if column.endswith(f".{name}") else f"{column} as {name}" for name, column in columns
        )
        or "none: one answer at each tick"
    )


def shown_in_words(query: AggregateQuery) -> str:
    """Return what is answered for each group."""
    shown = [(each.name, measure_in_words(query, each)) for each in query.measures if each.is_shown]
    return ", ".join(f"{name} = {words}" for name, words in shown) or "the groups alone"


def having_in_words(query: AggregateQuery) -> str:
    """Return which answers HAVING lets through, its own aggregates written out."""
    hidden = {each.name: measure_in_words(query, each) for each in query.measures if not each.is_shown}
    return _COLUMN.sub(lambda name: hidden.get(name[1], name[1]), query.having or "") or "all answers"


def ticks_in_words(query: AggregateQuery) -> str:
    """Return when answers are given, which streams they wait for, and which clocks are not believed."""
    clock = clock_in_words(query.idle_us, query.ahead_us)
    passed = "passed it" if query.recall is None else "passed it by the slack that is chosen"
    return f"every {format_duration(query.every_us)}, once all streams have {passed}; {clock}"


def slack_in_words(query: AggregateQuery) -> str:
    """Return what becomes of late rows."""
    late = "every late row waits for the repair"
    if query.slack_us:
        reach = f"up to {format_duration(query.slack_us)} behind the last tick"
        late = f"late rows revise answers {reach} at once; what is older waits for the repair"
    if query.recall is None:
        return late if query.slack_us else f"none: {late}"
    share = judged_share(query.recall, usual_margin(query.recall))
    period = format_duration(query.period_us or 0)
    least = (
        f"the least with which {share:.6g} of the answers of each past {period} would never have been revised"
    )
    return f"needed_slack: at every batch {least}; {late}"


def method_in_words(query: AggregateQuery) -> str:
    """Return what runs a query, and why."""
    return f"{query.method}: {query.why}"


def other_methods_in_words(query: AggregateQuery) -> str:
    """Return what else could run a query, and what could not for which reason."""
    others = [(name, why_not) for name, why_not in methods_of(query) if name != query.method]
    able = ", ".join(name for name, why_not in others if why_not is None)
    unable = [f"not {name}: {why_not}" for name, why_not in others if why_not]
    return "; ".join([f"{able or 'nothing else'} could run it too", *unable])


def methods_of(query: AggregateQuery) -> tuple[tuple[str, str | None], ...]:
    """Return every method with the reason why it cannot run a query, None if it can; the cheapest first."""
    from lakehouse.algorithms.join_aggregate.choice import methods_for

    found = methods_for(shape_of(query))
    if query.recall is None:
        return found
    without = dict(methods_for(shape_of(replace(query, recall=None))))
    return tuple((name, why_not and (without[name] or _NO_LAST_ROW)) for name, why_not in found)


def spread_in_words(query: AggregateQuery, number: str) -> str:
    """Return how rows are spread over buckets, of which there is a ``number`` in words."""
    shared = query.bucketed_by
    if not shared:
        return "1: no column is common to all streams, so all rows are in one"
    return f"{number}, by hash of {' and '.join(_equal(query, number) for number in shared)}"


def _attributes(query: AggregateQuery) -> list[int]:
    return sorted({number for side in query.sides for number, _ in side.keys})


def _equal(query: AggregateQuery, attribute: int) -> str:
    columns = [
        f"{side.alias}.{column}"
        for side in query.sides
        for number, column in side.keys
        if number == attribute
    ]
    return " = ".join(columns)

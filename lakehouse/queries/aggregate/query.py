"""A registered query that keeps aggregates of a window join current, as the parts that running it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from lakehouse.declare.durations import format_duration
from lakehouse.queries.kind import Conjunct, Query, where_text
from lakehouse.queries.language.text import DIALECT

Function = Literal["count", "sum", "avg", "min", "max"]
Method = Literal["factorised", "multiway", "tuple_count", "incremental", "materialised"]


@dataclass(frozen=True)
class Input:
    """One side of the join.

    ``keys``: the columns of its join attributes, each with the attribute's number; columns of different sides that
    must be equal have one number. ``values``: what aggregates read, as Spark SQL of type double over the raw table's
    columns. ``where``: Spark SQL, telling which rows take part; None for all. A row is in the window while the tick
    is at most ``window_us`` after it. ``conjuncts``: where one of the conditions on the side calls a predicate of the
    operator's own, all of them, in the written order; ``where`` is None then.
    """

    stream: str
    alias: str
    window_us: int
    keys: tuple[tuple[int, str], ...]
    values: tuple[str, ...]
    where: str | None
    conjuncts: tuple[Conjunct, ...] = ()


@dataclass(frozen=True)
class GroupColumn:
    """A column of GROUP BY: a side's column of the raw table, under the name that answers have for it."""

    name: str
    side: int
    column: str


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
class AggregateQuery(Query):
    """A registered join-aggregate, answered every ``every_us`` at whole multiples of that since 1970.

    Sides, join attributes and values are in an order that does not depend on how the query is written.
    ``having``: Spark SQL over names of groups and measures; None for all. ``slack_us``: how far behind the last tick
    late rows still revise answers at once; older ones wait for the repair. ``idle_us``: a stream whose newest row is
    further behind another's no longer holds ticks back. ``ahead_us``: rows further ahead of their own arrival are
    refused. ``method``: what runs it, chosen unless ``is_forced``; ``why`` says by what. ``is_alarm``: groups that
    HAVING lets through raise alarms.
    """

    kind: ClassVar[str] = "aggregate"
    kernel: ClassVar[str | None] = "its aggregates"
    sides: tuple[Input, ...]
    groups: tuple[GroupColumn, ...]
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

    @property
    def bucketed_by(self) -> tuple[int, ...]:
        """The join attributes that all sides carry: rows that join agree in them. None: one bucket holds all."""
        carried = [{number for number, _ in side.keys} for side in self.sides]
        return tuple(sorted(set.intersection(*carried)))

    def definition(self) -> str:
        """What the answers and the state depend on, as one line; texts that mean the same give the same line."""
        sides = " JOIN ".join(
            f"{side.stream} [{format_duration(side.window_us)}] WHERE {where_text(side)}"
            f" KEYS [{', '.join(f'{number} = {column}' for number, column in side.keys)}]"
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
        whole = (
            f"{sides} GROUPS [{groups}] MEASURES [{measures}] HAVING {self.having or 'true'} EVERY {every}"
            f" SLACK {slack} IDLE {idle} AHEAD {ahead} ALARM {self.is_alarm}"
        )
        return whole.replace("\n", "\\n")

    def how(self) -> str:
        """Which method keeps the aggregates."""
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

"""Contract of every join-aggregate: the shapes that go in and out, and the verbs they share.

Two to eight streams (sides) are joined on equal attributes; a result is one row of each side that agree in every
attribute both carry, at a time when all of them are in their windows. Answers are asked for at ticks.

    row ........... (side, enter_us, leave_us, a value per attribute it carries, group, values)
    in the window . at tick t: enter_us <= t <= leave_us; in order of time enter = ts, leave = ts + the side's window
    number ........ a double, or a whole number in two or three *limbs*: in base 2^42, the lowest first, all of its sign
    partial ....... per tick and group: results counted, sums and extremes; partials of parts of the rows that share no
                    result add up (``merged``)

Times are int64 microseconds. Nothing here knows text: keys and groups are numbers that are equal where the values are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Function = Literal["count", "sum", "min", "max"]
FAR_PAST_US, FAR_FUTURE_US = -(2**60), 2**60
MOST_SIDES = 8
LIMB_BITS = 42


@dataclass(frozen=True)
class Aggregate:
    """One aggregate over the results: of a column of one side's values, where that is not null (NaN).

    COUNT(*) is no aggregate of these: every partial has it as ``results``. AVG is a sum and its count. ``limbs``: in
    how many columns, from ``column`` on, the number is; 1 for a double.
    """

    function: Function
    side: int
    column: int
    limbs: int = 1

    @property
    def is_extreme(self) -> bool:
        """Tell if it is the least or the greatest of its values."""
        return self.function in ("min", "max")


@dataclass(frozen=True)
class Shape:
    """Query as a method sees it.

    ``attributes``: per side which join attributes its rows carry; ``Rows.keys`` has their values in columns of the
    same numbers, and anything in the other columns. ``grouped``: which sides' groups count; others' are taken as 0.
    """

    attributes: tuple[tuple[int, ...], ...]
    grouped: tuple[bool, ...]
    aggregates: tuple[Aggregate, ...] = ()

    def __post_init__(self) -> None:
        sides = len(self.attributes)
        if not 2 <= sides <= MOST_SIDES or len(self.grouped) != sides:
            raise ValueError(
                f"expected 2 to {MOST_SIDES} sides, all with attributes and grouped, found {sides}"
            )
        if not self.is_connected:
            raise ValueError(
                "expected attributes that connect all sides: without them every row meets every other"
            )
        if any(not 0 <= each.side < sides or each.column < 0 for each in self.aggregates):
            raise ValueError(f"expected aggregates of columns of sides 0 to {sides - 1}")

    @property
    def sides(self) -> int:
        """Return how many streams are joined."""
        return len(self.attributes)

    @property
    def width(self) -> int:
        """Return how many join attributes there are."""
        return 1 + max(number for carried in self.attributes for number in carried)

    @property
    def columns(self) -> int:
        """Return how many columns of values the aggregates read."""
        return max((each.column + each.limbs for each in self.aggregates), default=0)

    @property
    def has_one_key(self) -> bool:
        """Tell if all sides carry the same attributes: then these are one key, and results lie within a key."""
        return len({frozenset(carried) for carried in self.attributes}) == 1

    @property
    def is_connected(self) -> bool:
        """Tell if every side is tied to every other by attributes, at least over a third."""
        reached, waiting = set(self.attributes[0]), list(self.attributes[1:])
        while near := [carried for carried in waiting if reached & set(carried)]:
            reached |= {number for carried in near for number in carried}
            waiting = [carried for carried in waiting if carried not in near]
        return not waiting


@dataclass(frozen=True)
class Rows:
    """Rows of all sides, in any order; made by ``Rows.of``, which checks and fills in.

    ``side`` int8. ``enter_us``, ``leave_us`` int64: the row is in its window from one to the other, both counted in;
    never in it where leave is before enter. ``keys`` int64, rows x attributes. ``group`` int64: the row's part of the
    result's group. ``values`` float64, rows x columns, NaN for null; what is added up is finite: a sum that held an
    infinity could never let go of it. ``row`` int64: an id that is unique within its side. ``weight`` int64: for how
    many rows it stands that differ in nothing but their values, of which it has the sum or the extreme: 1 but where
    rows have been folded (``folded.py``), which ``Factorised`` and ``ViewTree`` take.
    """

    side: npt.NDArray[np.int8]
    enter_us: Int64s
    leave_us: Int64s
    keys: Int64s
    group: Int64s
    values: Float64s
    row: Int64s
    weight: Int64s

    @classmethod
    def of(
        cls,
        side: Any,
        enter_us: Any,
        leave_us: Any,
        keys: Any,
        *,
        group: Any = None,
        values: Any = None,
        row: Any = None,
    ) -> Self:
        """Return rows; without ``row`` they are numbered from 0, without ``group`` all are in group 0.

        Raises ValueError when columns differ in length, a side is negative, a time beyond +-2^60 us.
        """
        side = np.asarray(side, np.int8)
        n = len(side)
        plain = np.zeros((n, 0)) if values is None else np.asarray(values, np.float64)
        rows = cls(
            side=side,
            enter_us=np.asarray(enter_us, np.int64),
            leave_us=np.asarray(leave_us, np.int64),
            keys=_columns(np.asarray(keys, np.int64), n),
            group=np.zeros(n, np.int64) if group is None else np.asarray(group, np.int64),
            values=_columns(plain, n),
            row=np.arange(n) if row is None else np.asarray(row, np.int64),
            weight=np.ones(n, np.int64),
        )
        rows._validate()
        return rows

    def _validate(self) -> None:
        lengths = {field.name: len(getattr(self, field.name)) for field in fields(self)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"expected columns of one length, found {lengths}")
        if np.any((self.side < 0) | (self.side >= MOST_SIDES)):
            raise ValueError(f"expected sides from 0 to {MOST_SIDES - 1}")
        for times in (self.enter_us, self.leave_us):
            if np.any((times < FAR_PAST_US) | (times > FAR_FUTURE_US)):
                raise ValueError("expected times within +-2^60 us of 1970, found one beyond")

    def __len__(self) -> int:
        return len(self.side)

    def __getitem__(self, part: slice | Int64s | Bools) -> Rows:
        return Rows(*(getattr(self, field.name)[part] for field in fields(self)))

    @classmethod
    def none(cls, shape: Shape) -> Self:
        """Return no rows."""
        return cls.of([], [], [], np.zeros((0, shape.width)), values=np.zeros((0, shape.columns)))

    @staticmethod
    def joined(parts: Sequence[Rows]) -> Rows:
        """Return the rows of all parts, one after the other; there is at least one part."""
        names = [field.name for field in fields(Rows)]
        return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True)
class Partials:
    """Answers at ticks, sorted by tick and group, each (tick, group) once; those without a result are left out.

    ``tick_us`` int64. ``group`` int64, partials x sides: the parts of the group, 0 for sides that do not count.
    ``results`` int64: how many join results. Per aggregate of the shape one column each of ``counted`` (int64: results
    whose value is not null) and, float64, of ``extreme``, ``high`` and ``low``:

        a sum in limbs ........ its three limbs, the highest first
        an extreme ............ its limbs, the highest first, then 0
        a sum of doubles ...... high + low, low being what high has no digits for; times 2^extreme where it is not NaN,
                                which keeps sums beyond 2^960 in the range of doubles
        none, or a count ...... NaN, 0 and 0
    """

    tick_us: Int64s
    group: Int64s
    results: Int64s
    counted: Int64s
    high: Float64s
    low: Float64s
    extreme: Float64s

    def __len__(self) -> int:
        return len(self.tick_us)

    def __getitem__(self, part: slice | Int64s | Bools) -> Partials:
        return Partials(*(getattr(self, field.name)[part] for field in fields(self)))

    @classmethod
    def none(cls, shape: Shape) -> Self:
        """Return no partials."""
        wide = len(shape.aggregates)
        count, real = np.zeros((0, wide), np.int64), np.zeros((0, wide))
        times = np.zeros(0, np.int64)
        return cls(times, np.zeros((0, shape.sides), np.int64), times, count, real, real, real)

    @staticmethod
    def joined(parts: Sequence[Partials]) -> Partials:
        """Return the partials of all parts, one after the other; there is at least one part."""
        names = [field.name for field in fields(Partials)]
        return Partials(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class JoinAggregate(Protocol):
    """A continuous join-aggregate.

    Laws of all methods: their partials equal what all results together come to (sums within a bound that does not grow
    with running time); any cut of rows and ticks into calls gives the same.
    """

    def advance(self, rows: Rows, ticks_us: Int64s) -> Partials:
        """Take rows in and return the answers at the ticks, which ascend and are later than any tick before.

        Rows come in any order and may enter before the last tick: they count at ticks from now on. Rows that enter
        after the last of these ticks wait. Rows that have left by then are let go of. Raises OverflowError when a
        count goes beyond 2^63 - 1; the state is not to be used any more.
        """


@runtime_checkable
class Revising(JoinAggregate, Protocol):
    """A continuous join-aggregate that keeps what it needs to revise earlier answers itself."""

    def revise(self, rows: Rows, ticks_us: Int64s) -> Partials:
        """Take rows in that enter up to the last tick, as if they had not been late; return what answers gain.

        ``ticks_us``: all ticks up to the last at which one of the rows is in its window; they ascend.
        """


def _columns(values: Any, n: int) -> Any:
    return np.ascontiguousarray(values.reshape(n, -1) if n else values.reshape(0, values.shape[-1]))

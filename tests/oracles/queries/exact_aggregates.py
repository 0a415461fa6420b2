"""Aggregates of a join of streams by definition: all results at each tick, in Python's ints, Decimals and Fractions.

A measure is ``(function, side, column)``, COUNT(*) has no column. Nulls are equal to nothing; NaN equals itself, and is
no value of a measure; both zeros are one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Row = dict[str, Any]
Measure = tuple[str, int, str | None]
Place = tuple[int, str]
Result = tuple[Row, ...]
Having = Callable[[Sequence[Result]], bool | None]


@dataclass(frozen=True)
class Joined:
    """A join: how long rows of each side count, columns that are equal, columns of groups, and what is measured."""

    windows: Sequence[int]
    equal: Sequence[tuple[Place, Place]]
    groups: Sequence[Place]
    measures: Sequence[Measure]
    having: Having | None = None

    def answers(
        self, sides: Sequence[Sequence[Row]], ticks: Sequence[int]
    ) -> dict[tuple[int, Any], tuple[list[Any], bool]]:
        """Return for each tick and group the measures, and whether HAVING holds."""
        found: dict[tuple[int, Any], list[Result]] = {}
        for rows in self.results(sides):
            first, last = self._together(rows)
            group = tuple(plain(rows[side][column]) for side, column in self.groups)
            for tick in ticks:
                if first <= tick <= last:
                    found.setdefault((tick, group), []).append(rows)
        return {
            at: (
                [measured(each, results) for each in self.measures],
                self.having is None or self.having(results) is True,
            )
            for at, results in found.items()
        }

    def results(self, sides: Sequence[Sequence[Row]], rows: Result = ()) -> Iterator[Result]:
        """Yield the results that begin with some rows, all of which are in their windows at some time."""
        if len(rows) == len(sides):
            yield rows
            return
        for row in sides[len(rows)]:
            longer = (*rows, row)
            first, last = self._together(longer)
            if first <= last and all(self._is_met(one, two, longer) for one, two in self.equal):
                yield from self.results(sides, longer)

    def _together(self, rows: Result) -> tuple[int, int]:
        """Return from when to when some rows are in their windows."""
        times = [row["event_us"] for row in rows]
        return max(times), min(map(operator.add, times, self.windows))

    @staticmethod
    def _is_met(one: Place, two: Place, rows: Result) -> bool:
        if max(one[0], two[0]) != len(rows) - 1:
            return True
        left, right = rows[one[0]][one[1]], rows[two[0]][two[1]]
        return left is not None and right is not None and bool(plain(left) == plain(right))


def plain(value: Any) -> Any:
    """Return what is equal where values are."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def measured(measure: Measure, results: Sequence[Result]) -> Any:
    """Return a measure exactly: an average as a fraction, also of doubles; null where there is no value."""
    function, side, column = measure
    if column is None:
        return len(results)
    values = [result[side][column] for result in results if result[side][column] is not None]
    values = [value for value in values if value == value]
    if function == "count":
        return len(values)
    if not values:
        return None
    if function in ("min", "max"):
        return min(values) if function == "min" else max(values)
    if infinite := {each for each in values if isinstance(each, float) and math.isinf(each)}:
        return infinite.pop() if len(infinite) == 1 else math.nan
    total = sum(map(Fraction, values), Fraction(0))
    return total / len(values) if function == "avg" else total


def same(found: Any, expected: Any) -> bool:
    """Tell if a measure is what it should be: exact numbers exactly, averages the double nearest to them."""
    if expected is None or found is None:
        return found is expected
    if isinstance(found, float):
        return found == float(expected)
    return Fraction(found) == Fraction(expected)


def near(found: float, expected: Fraction | float) -> bool:
    """Tell if a sum or an average of doubles is within 2^-52 of what it should be; beyond all doubles it is infinite.

    An average is a rounded sum that is divided, which rounds again.
    """
    if isinstance(expected, float):
        return found == expected or (math.isnan(found) and math.isnan(expected))
    try:
        rounded = float(expected)
    except OverflowError:
        return found == (math.inf if expected > 0 else -math.inf)
    return abs(Fraction(found) - expected) <= max(Fraction(math.ulp(rounded)), abs(expected) / 2**52)

"""Aggregates of a chain of streams by definition: all results at each tick, in Python's ints, Decimals and Fractions.

A measure is ``(function, side, column)``, COUNT(*) has no column; a condition of HAVING ``(measure, sign, bound)``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

Row = dict[str, Any]
Measure = tuple[str, int, str | None]
Having = tuple[Measure, str, Fraction]
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    **{"<": operator.lt, "<=": operator.le, "=": operator.eq},
    **{"<>": operator.ne, ">=": operator.ge, ">": operator.gt},
}


def answers(
    sides: Sequence[Sequence[Row]],
    windows: Sequence[int],
    ticks: Sequence[int],
    measures: Sequence[Measure],
    having: Having | None,
    keys: Sequence[str] = ("k",),
) -> dict[tuple[int, Any], tuple[list[Any], bool]]:
    """Return for each tick and group ``g`` of the first side the measures, and whether HAVING holds.

    Each side agrees with the next one in a key, which is not null.
    """
    found: dict[tuple[int, Any], list[tuple[Row, ...]]] = {}
    for rows in product(*sides):
        if any(one[k] is None or one[k] != two[k] for one, two, k in zip(rows, rows[1:], keys, strict=False)):
            continue
        first = max(row["event_us"] for row in rows)
        last = min(row["event_us"] + window for row, window in zip(rows, windows, strict=True))
        for tick in ticks:
            if first <= tick <= last:
                found.setdefault((tick, rows[0]["g"]), []).append(rows)
    return {
        at: ([measured(each, pairs) for each in measures], having is None or _holds(having, pairs))
        for at, pairs in found.items()
    }


def measured(measure: Measure, pairs: Sequence[tuple[Row, ...]]) -> Any:
    """Return a measure exactly: an average as a fraction, also of doubles; null where there is no value."""
    function, side, column = measure
    if column is None:
        return len(pairs)
    values = [pair[side][column] for pair in pairs if pair[side][column] is not None]
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


def _holds(having: Having, pairs: Sequence[tuple[Row, ...]]) -> bool:
    measure, sign, bound = having
    value = measured(measure, pairs)
    return value is not None and SIGNS[sign](Fraction(value), bound)


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

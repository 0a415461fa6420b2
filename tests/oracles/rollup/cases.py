"""Cases that every engine of the rollup must answer alike: rows, a range, and what is to come out, worked out by hand.

The newest row came at 100. Of LEVELS, nodes of 40 are kept for ever and nodes of 10 from 40 on; of LIMITED, both from
40 on. ``value``, ``low`` and ``high`` are for exact sums; those of doubles are moved
out by their rounding.
"""

from __future__ import annotations

from typing import NamedTuple

from lakehouse.algorithms.rollup.levels import Level
from tests.oracles.rollup.contract import Aggregate

NEWEST = 100
LEVELS = (Level(10, 40), Level(40, None))
LIMITED = (Level(10, 40), Level(40, 50))
Rows = tuple[tuple[int, float], ...]
# By node of 40: 4 rows, their sum 16, from 1 to 10, the first at 5 and the last at 35.
FOUR: Rows = ((5, 1), (15, 2), (25, 3), (35, 10))
SIGNS: Rows = ((5, -3), (15, 2), (25, 3), (35, -4))
EQUAL: Rows = ((5, 7), (15, 7), (35, 7))
PAIR: Rows = ((5, 1), (35, 10))
FINE: Rows = ((81, 1), (85, 1), (87, 2), (92, 5))
LOST: Rows = ((5, 100), *FINE)


class Case(NamedTuple):
    """One question and its answer; ``rows`` is about how many, between ``rows_low`` and ``rows_high``."""

    name: str
    data: Rows
    aggregate: Aggregate
    start: int
    end: int
    value: float | None
    low: float | None
    high: float | None
    exact: bool
    rows: float
    rows_low: int
    rows_high: int | None
    levels: tuple[Level, ...] = LEVELS


CASES = (
    Case("a whole node", FOUR, "sum", 0, 40, 16, 16, 16, True, 4, 4, 4),
    Case("all rows lie inside, the node does not", FOUR, "sum", 2, 36, 16, 16, 16, True, 4, 4, 4),
    Case("no row lies inside", FOUR, "sum", 36, 80, None, None, None, True, 0, 0, 0),
    Case("the first row is inside", FOUR, "sum", 0, 20, 8, 1, 15, False, 2, 1, 3),
    Case("the last row is inside", FOUR, "sum", 20, 40, 8, 1, 15, False, 2, 1, 3),
    Case("neither the first nor the last", FOUR, "sum", 10, 30, 8, 0, 14, False, 2, 0, 2),
    Case("neither of two", PAIR, "sum", 10, 30, None, None, None, True, 0, 0, 0),
    Case("one of two", PAIR, "sum", 0, 20, 5.5, 1, 10, False, 1, 1, 1),
    Case("both signs", SIGNS, "sum", 0, 20, -1, -8, 6, False, 2, 1, 3),
    Case("equal values", EQUAL, "sum", 0, 20, 10.5, 7, 14, False, 1.5, 1, 2),
    Case("finer nodes where they are kept", FINE, "sum", 80, 90, 4, 4, 4, True, 3, 3, 3),
    Case("a cut finer node and a whole one", FINE, "sum", 85, 100, 7, 6, 8, False, 2.5, 2, 3),
    Case("counted", FOUR, "count", 0, 20, 2, 1, 3, False, 2, 1, 3),
    Case("counted inside", FOUR, "count", 10, 30, 2, 0, 2, False, 2, 0, 2),
    Case("a mean", FOUR, "avg", 0, 20, 4, 1, 10, False, 2, 1, 3),
    Case("a mean of both signs", SIGNS, "avg", 0, 20, -0.5, -4, 3, False, 2, 1, 3),
    Case("a mean that is a double", FOUR, "avg", 0, 40, 4, 4, 4, True, 4, 4, 4),
    Case("the least of half a node", FOUR, "min", 0, 20, 1, 1, 10, False, 2, 1, 3),
    Case("the least of a quarter", FOUR, "min", 0, 10, 10, 1, 10, False, 1, 1, 3),
    Case("the least where none is sure", FOUR, "min", 10, 20, 1, 1, None, False, 1, 0, 2),
    Case("the least of a node", FOUR, "min", 0, 40, 1, 1, 1, True, 4, 4, 4),
    Case("the greatest of half a node", FOUR, "max", 20, 40, 10, 1, 10, False, 2, 1, 3),
    Case("the greatest of a quarter", FOUR, "max", 0, 10, 1, 1, 10, False, 1, 1, 3),
    Case("the greatest where none is sure", FOUR, "max", 10, 20, 10, None, 10, False, 1, 0, 2),
    Case("no rows sum to nothing", FOUR, "sum", 200, 300, None, None, None, True, 0, 0, 0),
    Case("no rows have no mean", FOUR, "avg", 200, 300, None, None, None, True, 0, 0, 0),
    Case("no rows have no least", FOUR, "min", 200, 300, None, None, None, True, 0, 0, 0),
    Case("a sum over what is forgotten", LOST, "sum", 0, 100, 9, None, None, False, 4, 4, None, LIMITED),
    Case("a count over it", LOST, "count", 0, 100, 4, 4, None, False, 4, 4, None, LIMITED),
    Case("a mean over it", LOST, "avg", 0, 100, 2.25, None, None, False, 4, 4, None, LIMITED),
    Case("the least over it", LOST, "min", 0, 100, 1, None, 1, False, 4, 4, None, LIMITED),
    Case("the greatest over it", LOST, "max", 0, 100, 5, 5, None, False, 4, 4, None, LIMITED),
)

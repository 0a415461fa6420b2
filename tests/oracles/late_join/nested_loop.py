"""The yardstick: keep every row, compare each with all that came before it; and the repair by its definition."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lakehouse.algorithms.late_join.conditions import (
    Band,
    Comparison,
    Condition,
    Distance,
    Equality,
    scales_of,
)
from lakehouse.algorithms.late_join.contract import LEFT, MISSING, Batch, Outcome, online_pairs
from tests.oracles.late_join.contract import Snapshot, empty_log

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Log, Pairs

Row = tuple[int, int, int, int, bool, tuple[float, ...]]


class NestedLoop:
    """Every pair of both streams, found when its later row is processed; slow, and too simple to be wrong.

    Cost: a row O(rows so far), memory O(rows).
    Guarantee: exactly the pairs of the definition, each once.

    >>> join = NestedLoop(Equality(), window_us=10)
    >>> found = join.process(Batch.of([0, 1, 1], [5, 15, 16], key=[7, 7, 7]))
    >>> found.pairs.left.tolist(), found.pairs.right.tolist()
    ([0], [1])
    """

    def __init__(self, condition: Condition, window_us: int) -> None:
        self.condition, self.window_us = condition, window_us
        self._rows: list[Row] = []

    def process(self, batch: Batch) -> Outcome:
        """Compare each row with every row of the other side so far."""
        found: list[tuple[int, int, int]] = []
        for row in _rows_of(batch, self.condition):
            found += [as_pair(row, other) for other in self._rows if self.joins(row, other)]
            self._rows.append(row)
        columns = np.array(found, np.int64).reshape(-1, 3).T
        return Outcome(online_pairs(*columns), empty_log(), np.empty(0, np.int64))

    def missing(self, log: Log) -> set[tuple[int, int]]:
        """Return (left, right) of the pairs that logged rows have missed, by the repair's definition."""
        position = {(row[0], row[2]): index for index, row in enumerate(self._rows)}
        missed = set()
        for row, side, horizon_us in zip(
            log.row.tolist(), log.side.tolist(), log.horizon_us.tolist(), strict=True
        ):
            at = position[side, row]
            for other in self._rows[:at]:
                if self.joins(self._rows[at], other) and other[1] <= horizon_us:
                    missed.add(as_pair(self._rows[at], other)[:2])
        return missed

    def joins(self, row: Row, other: Row) -> bool:
        """Tell if two rows are of different sides, near in time and satisfy the condition."""
        if row[0] == other[0] or abs(row[1] - other[1]) > self.window_us or row[4] or other[4]:
            return False
        left, right = (row, other) if row[0] == LEFT else (other, row)
        return self._matches(left, right) and all(
            _compares(each, left[5], right[5]) for each in self.condition.where
        )

    def _matches(self, left: Row, right: Row) -> bool:
        match self.condition:
            case Band(width, column):
                gap = left[5][column] - right[5][column]
                return math.isfinite(gap) and abs(gap) <= width
            case Distance(radius, (x, y)):
                dx, dy = left[5][x] - right[5][x], left[5][y] - right[5][y]
                return math.isfinite(dx) and math.isfinite(dy) and dx * dx + dy * dy <= radius * radius
            case Equality():
                return left[3] == right[3]

    def snapshot(self) -> Snapshot:
        """Return all rows in processing order."""
        return Snapshot("NestedLoop", {"rows": json.dumps(self._rows).encode()})

    def restore(self, snapshot: Snapshot) -> None:
        """Become the join that the snapshot was taken of."""
        if snapshot.method != "NestedLoop":
            raise ValueError(f"expected a snapshot of NestedLoop, found one of {snapshot.method}")
        self._rows = [
            (side, event, row, key, missing, tuple(numbers))
            for side, event, row, key, missing, numbers in json.loads(snapshot.parts["rows"])
        ]

    def check(self) -> None:
        """Raise AssertionError if a row id came twice on one side."""
        ids = [(row[0], row[2]) for row in self._rows]
        assert len(ids) == len(set(ids)), "a row id that came twice on one side"


def as_pair(row: Row, other: Row) -> tuple[int, int, int]:
    """Return (left id, right id, time of the newer row)."""
    left, right = (row, other) if row[0] == LEFT else (other, row)
    return left[2], right[2], max(row[1], other[1])


def as_set(pairs: Pairs) -> set[tuple[int, int]]:
    """Return (left, right) of each pair."""
    return set(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))


def exact_numbers(*columns: Sequence[int | None]) -> np.ndarray:
    """Return columns of exact numbers as a batch has them; None where one is missing."""
    words = [
        [
            word
            for number in line
            for word in ((0, MISSING) if number is None else (number % 2**64, number >> 64))
        ]
        for line in zip(*columns, strict=True)
    ]
    whole = np.array([[each % 2**64 for each in line] for line in words], np.uint64)
    return whole.reshape(-1, 2 * len(columns)).view(np.float64)


def _numbers_of(batch: Batch, condition: Condition) -> list[tuple[Any, ...]]:
    """Return the numbers of each row by their places in the condition: doubles and ints, NaN where one is missing."""
    scales, found, at = scales_of(condition), [], 0
    words = batch.numbers.view(np.int64)
    for place in range(max(scales, default=-1) + 1):
        if scales.get(place) is None:
            found.append(batch.numbers[:, at].tolist())
            at += 1
            continue
        both = words[:, at : at + 2].tolist()
        found.append([math.nan if high == MISSING else (high << 64) + low % 2**64 for low, high in both])
        at += 2
    return list(zip(*found, strict=True)) if found else [()] * len(batch)


def _rows_of(batch: Batch, condition: Condition) -> Iterator[Row]:
    columns = batch.side, batch.event_us, batch.row, batch.key, batch.missing
    rows = _numbers_of(batch, condition)
    for *plain, numbers in zip(*(column.tolist() for column in columns), rows, strict=True):
        side, event, row, key, missing = plain
        yield side, event, row, key, missing, tuple(numbers)


def _compares(how: Comparison, left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    one, other = left[how.left], right[how.right] + how.plus
    if math.isnan(one) or math.isnan(other):
        return False
    return bool(_COMPARE[how.operator](one, other))


_COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}

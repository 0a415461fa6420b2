"""Rollups over declared levels, such as 1s for 1h, 1m for 2d, 1h for 1y, 1d forever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, floor_to, horizons, validate_levels
from tests.oracles.rollup.bounds import open_sides, with_forgotten_rows
from tests.oracles.rollup.contract import Snapshot
from tests.oracles.rollup.level_stack import LevelStack, batch_of

if TYPE_CHECKING:
    from lakehouse.algorithms.rollup.levels import Level
    from tests.oracles.rollup.contract import Aggregate, Answer, Answers, Node, Times, Values
    from tests.oracles.rollup.descent import Descent


class DsmgaTree:
    """SUM, COUNT, AVG, MIN and MAX over any range of a stream, however old, in space set by the levels.

    G_i  width of a node on level i          T_i  how long level i keeps its nodes
    H_i  horizon: level i keeps the nodes that start at or after floor_to(G_{i+1}, newest - T_i)

    Cost: a row O(levels) at the tail and O(levels * log nodes) when late; a batch is folded once by level
    1, then level by level; a query O(levels * log nodes) plus at most 2 (G_{i+1} / G_i - 1) nodes a level
    and the whole top-level nodes inside.
    Guarantee: ``low <= truth <= high``; exact wherever both ends of the range fall on kept node edges.
    State and answers do not depend on arrival order but for the last bit of a sum.

    >>> from lakehouse.algorithms.rollup.levels import Level
    >>> tree = DsmgaTree([Level(1, 4), Level(4, None)])
    >>> tree.insert_batch([0, 1, 2, 3, 11], [5.0, 5.0, 7.0, 7.0, 1.0])
    >>> tree.query(0, 4, "sum").exact, tree.query(0, 2, "count").value, tree.query(0, 2, "count").high
    (True, 2.0, 3.0)

    Reference: Liu, Jin, Hou, Zhang, DSMGA-Tree, sections 3 and 4.
    Differs from the paper: horizons aligned to the parent, late rows, missing values, first and last times,
    intervals. A top level with a limit forgets; answers that reach into what it forgot have open sides.
    """

    def __init__(self, levels: Sequence[Level]) -> None:
        problems = validate_levels(levels)
        if problems:
            raise ValueError("; ".join(problems))
        self.levels = tuple(levels)
        self._stack = LevelStack(level.width_us for level in levels)
        self._newest_us: int | None = None
        self._next_move_us = KEPT_FOREVER_US
        self._earliest_us: int | None = None
        self._missing = 0

    @property
    def horizons(self) -> tuple[int, ...]:
        """The start of the oldest node that each level keeps, finest first."""
        return tuple(self._stack.horizons.tolist())

    @property
    def missing(self) -> int:
        """How many rows came without a finite value."""
        return self._missing

    def advance(self, newest_us: int) -> None:
        """Move the newest event time on, as a row of another series of the same stream does; never back."""
        if self._newest_us is None or newest_us > self._newest_us:
            self._newest_us = newest_us
            if newest_us >= self._next_move_us:
                self._move_horizons(newest_us)

    def insert(self, time_us: int, value: float | None) -> None:
        """Add one row to every level that still keeps its time; one without a number is only counted."""
        self.insert_batch([time_us], [value])

    def insert_batch(self, times: Times, values: Values) -> None:
        """Add rows in any order, folded once; horizons move before, so what they pass is not made at all."""
        batch = batch_of(times, values)
        if batch is None:
            return
        self._missing += len(batch.times) - batch.finite
        self.advance(batch.newest_us)
        if batch.finite:
            known = batch.first_us if self._earliest_us is None else self._earliest_us
            self._earliest_us = min(known, batch.first_us)
            self._stack.add(batch)

    def query(self, start_us: int, end_us: int, aggregate: Aggregate) -> Answer:
        """Answer one aggregate over ``[start_us, end_us)``; an end before the start is an empty range."""
        oldest = int(self._stack.horizons[-1])
        known = self.descent(start_us, end_us).answer(aggregate)
        if self._earliest_us is not None and max(start_us, self._earliest_us) < min(end_us, oldest):
            return with_forgotten_rows(known, aggregate)
        return known

    def descent(self, start_us: int, end_us: int) -> Descent:
        """Return what answers a range: the rows surely inside, and the nodes that it cuts."""
        return self._stack.read(max(start_us, int(self._stack.horizons[-1])), end_us)

    def query_batch(self, starts: Times, ends: Times, aggregate: Aggregate) -> Answers:
        """Answer one aggregate over every ``[starts[i], ends[i])``: as ``query`` would, many times faster.

        Cost: as that of a query, without Python; nothing is allocated per range but its answer.
        """
        oldest = int(self._stack.horizons[-1])
        known = self._stack.answer_ranges(np.maximum(starts, oldest), ends, aggregate)
        if self._earliest_us is None or self._earliest_us >= oldest:
            return known
        reaches = np.maximum(starts, self._earliest_us) < np.minimum(ends, oldest)
        return open_sides(known, aggregate, reaches)

    def nodes(self, level_index: int) -> list[Node]:
        """Return the nodes that a level keeps, oldest first; level 0 is the finest."""
        return self._stack.level(level_index).nodes()

    def snapshot(self) -> Snapshot:
        """Return the whole state; later inserts do not change it."""
        return Snapshot(self._name(), self._newest_us, self._earliest_us, self._missing, self._stack.packed())

    def restore(self, snapshot: Snapshot) -> None:
        """Become the tree that the snapshot was taken of; both must have the same levels."""
        if snapshot.method != self._name():
            raise ValueError(f"expected a snapshot of {self._name()}, found one of {snapshot.method}")
        self._stack = LevelStack.unpacked([level.width_us for level in self.levels], snapshot.parts)
        self._newest_us = None
        self._next_move_us = KEPT_FOREVER_US
        if snapshot.newest_us is not None:
            self.advance(snapshot.newest_us)
        self._earliest_us = snapshot.earliest_us
        self._missing = snapshot.missing

    def check(self) -> None:
        """Raise AssertionError if a level is broken or a horizon passes through a parent."""
        self._stack.check()
        for level, horizon in zip(self.levels[1:], self.horizons[:-1], strict=True):
            aligned = horizon in (floor_to(level.width_us, horizon), KEPT_FOREVER_US)
            assert aligned, f"horizon {horizon} passes through a parent {level.width_us} us wide"

    def _move_horizons(self, newest_us: int) -> None:
        self._stack.move_horizons(horizons(self.levels, newest_us))
        self._next_move_us = next_move(self.levels, newest_us)

    def _name(self) -> str:
        spans = ", ".join(f"{level.width_us} for {level.keep_us}" for level in self.levels)
        return f"DsmgaTree [{spans}]"


def next_move(levels: Sequence[Level], newest_us: int) -> int:
    """Return the newest event time at which the next horizon moves.

    >>> from lakehouse.algorithms.rollup.levels import Level
    >>> next_move([Level(1, 10), Level(4, None)], newest_us=25)
    26
    """
    moves = [
        floor_to(parent.width_us, newest_us - level.keep_us) + parent.width_us + level.keep_us
        for level, parent in zip(levels, [*levels[1:], levels[-1]], strict=True)
        if level.keep_us is not None
    ]
    return min(moves, default=2**63 - 1)

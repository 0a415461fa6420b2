"""The paper's own model: levels that grow with the history, each as wide as alpha of the one below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, floor_to
from tests.oracles.rollup.contract import Snapshot
from tests.oracles.rollup.level_stack import LevelStack, batch_of

if TYPE_CHECKING:
    from tests.oracles.rollup.contract import Aggregate, Answer, Answers, Node, Times, Values
    from tests.oracles.rollup.descent import Spread


class PaperTree:
    """Any range of an endless stream in space that grows with the logarithm of its length.

    alpha  children of a node, at least 2
    l      ``exponent``, at least 1: a level keeps alpha^l + 1 slots of its width
    N      base slots from the earliest row to the newest, both counted

    A slot is kept by its time, with rows or without. When the top level would need one slot more, a new one
    is folded from it, so the top always covers the whole past.

        alpha = 2, l = 1, slots 0..7        [0,4) [4,8)                  level 3
                                                  [2,4) [4,6) [6,8)      level 2
                                                        [5] [6] [7]      level 1

    Cost: a row or a query O(log_alpha N). At most max(1, ceil(log_alpha(N - 1)) - l + 1) levels of alpha^l
    + 1 nodes, wherever the range lies on the time axis.
    Guarantee: ``low <= truth <= high``. For the last h of time, h >= base * alpha^(l-1), a kept node starts
    at most h / alpha^(l-1) before it (Theorem 1).
    Reference: Liu, Jin, Hou, Zhang, DSMGA-Tree, sections 2, 4 and 5.
    Differs from the paper: rows may be late or leave gaps; lost children are subtracted
    (``spread="remainder"``) instead of the whole parent being spread (``spread="whole"``, as printed);
    answers carry intervals.

    >>> tree = PaperTree(base_us=1, alpha=2, exponent=1)
    >>> tree.insert_batch(range(8), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    >>> tree.query(4, 5, "sum").value, tree.query(1, 3, "sum").value
    (5.0, 5.0)
    """

    def __init__(self, base_us: int, alpha: int = 2, exponent: int = 2, spread: Spread = "remainder") -> None:
        if base_us < 1 or alpha < 2 or exponent < 1:
            found = f"{base_us}, {alpha} and {exponent}"
            raise ValueError(f"expected base_us >= 1, alpha >= 2 and exponent >= 1, found {found}")
        self.base_us = base_us
        self.alpha = alpha
        self.slots_before: int = alpha**exponent
        self.spread: Spread = spread
        self._stack = LevelStack([base_us])
        self._newest_us: int | None = None
        self._earliest_us: int | None = None
        self._missing = 0

    @property
    def horizons(self) -> tuple[int, ...]:
        """The start of the oldest slot that each level keeps, finest first."""
        return tuple(self._stack.horizons.tolist())

    @property
    def missing(self) -> int:
        """How many rows came without a finite value."""
        return self._missing

    def insert(self, time_us: int, value: float | None) -> None:
        """Add one row to every level that still keeps its time; one without a number is only counted."""
        self.insert_batch([time_us], [value])

    def insert_batch(self, times: Times, values: Values) -> None:
        """Add rows in any order, folded once; the levels they need are made before."""
        batch = batch_of(times, values)
        if batch is not None:
            self._missing += len(batch.times) - batch.finite
            self._stretch(batch.newest_us, batch.first_us if batch.finite else None)
            self._stack.add(batch)

    def query(self, start_us: int, end_us: int, aggregate: Aggregate) -> Answer:
        """Answer one aggregate over ``[start_us, end_us)``; an end before the start is an empty range."""
        return self._stack.read(start_us, end_us, self.spread).answer(aggregate)

    def query_batch(self, starts: Times, ends: Times, aggregate: Aggregate) -> Answers:
        """Answer one aggregate over every ``[starts[i], ends[i])``: as ``query`` would, many times faster.

        Cost: as that of a query, without Python; nothing is allocated per range but its answer.
        """
        return self._stack.answer_ranges(starts, ends, aggregate, self.spread)

    def nodes(self, level_index: int) -> list[Node]:
        """Return the nodes that a level keeps, oldest first; level 0 is the finest."""
        return self._stack.level(level_index).nodes()

    def snapshot(self) -> Snapshot:
        """Return the whole state; later inserts do not change it."""
        return Snapshot(self._name(), self._newest_us, self._earliest_us, self._missing, self._stack.packed())

    def restore(self, snapshot: Snapshot) -> None:
        """Become the tree that the snapshot was taken of; both must have the same parameters."""
        if snapshot.method != self._name():
            raise ValueError(f"expected a snapshot of {self._name()}, found one of {snapshot.method}")
        widths = [self.base_us * self.alpha**index for index in range(len(snapshot.parts))]
        self._stack = LevelStack.unpacked(widths, snapshot.parts)
        self._newest_us = snapshot.newest_us
        self._earliest_us = snapshot.earliest_us
        self._missing = snapshot.missing
        self._move_horizons()

    def check(self) -> None:
        """Raise AssertionError if a level is broken or holds more nodes than slots."""
        self._stack.check()
        for array in self._stack.arrays:
            assert len(array) <= self.slots_before + 1, f"more nodes than slots, {array.width_us} us wide"

    def _stretch(self, newest_us: int, earliest_us: int | None) -> None:
        """Take in a newest and an earliest time: grow the top to cover both, then move the horizons."""
        newest = newest_us if self._newest_us is None else max(self._newest_us, newest_us)
        known = [time_us for time_us in (self._earliest_us, earliest_us) if time_us is not None]
        earliest = min(known, default=None)
        if (newest, earliest) == (self._newest_us, self._earliest_us):
            return
        self._newest_us, self._earliest_us = newest, earliest
        while earliest is not None and earliest < self._oldest_slot(self._top_width_us, newest):
            self._stack.add_top(self._top_width_us * self.alpha)
        self._move_horizons()

    @property
    def _top_width_us(self) -> int:
        return int(self._stack.widths[-1])

    def _oldest_slot(self, width_us: int, newest_us: int) -> int:
        return floor_to(width_us, newest_us) - self.slots_before * width_us

    def _move_horizons(self) -> None:
        if self._newest_us is None:
            return
        below = [self._oldest_slot(width, self._newest_us) for width in self._stack.widths[:-1].tolist()]
        self._stack.move_horizons([*below, KEPT_FOREVER_US])

    def _name(self) -> str:
        return f"PaperTree [base {self.base_us}, alpha {self.alpha}, slots {self.slots_before} + 1]"

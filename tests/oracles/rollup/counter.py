"""Counters: the increase of a meter's reading over any range, through resets, late rows and forgotten detail.

A reading only grows; when the meter restarts it falls to about zero and grows again. Over rows in order of
(time, value), with a step from each row to the next,

    step(a, b) = b - a  where b >= a        a fall is a reset: what follows counts from zero
                 b      where b < a
    increase   = sum of steps = last - first + drops,      drops = sum of the readings before each fall

as Prometheus' increase(), without its extrapolation to the ends of the range. Rows at one time are in order
of value: there is no reset inside an instant.

What a node holds (``COUNTER``): n, first and last reading with their times, the greatest reading, and
``drops_low <= drops <= drops_high``. Without resets all drops are 0 and nothing is ever rounded but one
subtraction.

**Joining.** If all of A lies before B, ``(A.last_us, A.last) <= (B.first_us, B.first)``, the join is exact:

    drops = A.drops + B.drops + (A.last if B.first < A.last else 0)

Nodes of one level never overlap, so a parent joined from its children, and an answer joined from whole
nodes, are as exact as these. Partial nodes of one node overlap when late rows fall between rows already
folded: where, is not known any more. One row more never lessens an increase (put v between a and b: the
steps a, v, b together are at least the step a, b), and adds at most the greater of v and a. So with f and l
the first and last row of both,

    drops >= max over X of A, B    drops_low(X) + fall(f, X.first) + fall(X.last, l)
    drops <= min over X            drops_high(X) + n(other) * greatest reading of both

The interval is wide, and must be: a late row may be the zero after a restart nobody saw. It is a point again
once the node is made again from its rows (``rebuild``), and a parent is made again from its children
wherever these are kept: only rows that fall into the midst of a node of the finest level that still keeps
their time leave an interval.

**Answers.** Both inner ends of a range's pieces are known rows, so steps between pieces are exact. Of a node
that the range cuts, some first or last rows are inside: between 0 and all of its increase. Its value is
spread evenly over the time between its first and last row.

Guarantee: ``low <= true increase <= high`` for readings that are finite and not below zero; all others are
counted as missing. Arrival order leaves no trace where it is in order of time, nor where late rows find a
level with one time a node; elsewhere it can only widen the interval.

In tables a parent is joined from its children wherever these have all of its readings, which is so above the
children's horizon, and below it until they are dropped.

Source: ours; the paper has no counters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from lakehouse.algorithms.rollup.counter_kernels import COUNTER, fold_nodes
from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, floor_to, horizons, validate_levels
from tests.oracles.rollup.contract import Snapshot
from tests.oracles.rollup.counter_kernels import fold_readings

if TYPE_CHECKING:
    import numpy.typing as npt

    from lakehouse.algorithms.rollup.levels import Level
    from tests.oracles.rollup.contract import Times, Values

    Counters = npt.NDArray[np.void]

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Increase:
    """How far a counter grew; ``high`` is None where forgotten rows could raise it. Over no row or one it is 0.

    ``exact``: the sides coincide but for the rounding where resets were added up.
    """

    value: float
    low: float
    high: float | None
    exact: bool
    nodes_read: int


def usable(times: Times, values: Values) -> tuple[Any, Any]:
    """Return the rows that are readings, in order of (time, value); NaN, infinities and negatives are none."""
    at, what = np.asarray(times, dtype=np.int64), np.asarray(values, dtype=np.float64)
    if at.shape != what.shape:
        raise ValueError(f"expected one value per time, found {at.size} times and {what.size} values")
    good = np.isfinite(what) & (what >= 0)
    at, what = at[good], what[good] + 0.0
    order = np.lexsort((what, at))
    return at[order], what[order]


class CounterTree:
    """The increase of one counter over any range, in space set by the levels.

    Cost: a batch O(rows log rows + nodes after its first row's), a query O(levels + nodes inside it).

    >>> from lakehouse.algorithms.rollup.levels import Level
    >>> tree = CounterTree([Level(1, 4), Level(4, None)])
    >>> tree.insert_batch([0, 1, 2, 3, 4, 5], [100.0, 104.0, 109.0, 2.0, 3.0, 9.0])
    >>> tree.increase(0, 6).value, tree.increase(0, 3).value, tree.increase(0, 6).exact
    (18.0, 9.0, True)
    """

    def __init__(self, levels: Sequence[Level]) -> None:
        problems = validate_levels(levels)
        if problems:
            raise ValueError("; ".join(problems))
        self.levels = tuple(levels)
        self.horizons = [KEPT_FOREVER_US] * len(levels)
        self._nodes: list[Counters] = [np.empty(0, COUNTER) for _ in levels]
        self._newest_us: int | None = None
        self._earliest_us: int | None = None
        self.missing = 0

    def insert_batch(self, times: Times, values: Values) -> None:
        """Add rows in any order, however late."""
        at, what = usable(times, values)
        self.missing += len(times) - len(at)
        if len(times):
            self._advance(int(np.max(times)))
        if len(at):
            first = int(at[0])
            self._earliest_us = first if self._earliest_us is None else min(self._earliest_us, first)
            self._raise(fold_readings(at, what, self.levels[0].width_us))

    def rebuild(self, start_us: int, end_us: int, times: Times, values: Values) -> None:
        """Make the nodes of a range again from all rows in it, which makes them exact again.

        Raises:
            ValueError: when the range does not lie on nodes of the top level, or a row outside the range.
        """
        at, what = usable(times, values)
        width = self.levels[-1].width_us
        if start_us % width or end_us % width:
            raise ValueError(f"expected ends that are multiples of {width} us, found {start_us} and {end_us}")
        if len(at) and not (start_us <= at[0] and at[-1] < end_us):
            raise ValueError(f"expected rows in [{start_us}, {end_us}), found {int(at[0])} to {int(at[-1])}")
        self._nodes = [
            nodes[(nodes["start"] < start_us) | (nodes["start"] >= end_us)] for nodes in self._nodes
        ]
        if len(at):
            self._advance(int(at[-1]))
            self._raise(fold_readings(at, what, self.levels[0].width_us))

    def increase(self, start_us: int, end_us: int) -> Increase:
        """Answer how far the counter grew from the first row in ``[start_us, end_us)`` to the last."""
        oldest = self.horizons[-1]
        pieces = self._pieces(len(self.levels) - 1, max(start_us, oldest), end_us)
        found = _increase(pieces, max(start_us, oldest), end_us)
        if self._earliest_us is not None and max(start_us, self._earliest_us) < min(end_us, oldest):
            return Increase(found.value, found.low, None, False, found.nodes_read)
        return found

    def nodes(self, level_index: int) -> Counters:
        """Return the nodes that a level keeps, oldest first; level 0 is the finest."""
        return self._nodes[level_index].copy()

    def snapshot(self) -> Snapshot:
        """Return the whole state; later inserts do not change it."""
        packed = tuple(nodes.tobytes() for nodes in self._nodes)
        return Snapshot(self._name(), self._newest_us, self._earliest_us, self.missing, packed)

    def restore(self, snapshot: Snapshot) -> None:
        """Become the tree that the snapshot was taken of; both must have the same levels."""
        if snapshot.method != self._name():
            raise ValueError(f"expected a snapshot of {self._name()}, found one of {snapshot.method}")
        self._nodes = [np.frombuffer(part, COUNTER).copy() for part in snapshot.parts]
        self._newest_us, self._earliest_us = snapshot.newest_us, snapshot.earliest_us
        self.missing = snapshot.missing
        self.horizons = [KEPT_FOREVER_US] * len(self.levels)
        if snapshot.newest_us is not None:
            self.horizons = horizons(self.levels, snapshot.newest_us)

    def check(self) -> None:
        """Raise AssertionError if a node is misplaced or at odds with itself, or a parent with its children."""
        for nodes, level, horizon in zip(self._nodes, self.levels, self.horizons, strict=True):
            assert np.all(nodes["start"][1:] > nodes["start"][:-1]), "nodes out of order"
            assert np.all(nodes["start"] % level.width_us == 0), "a node that is not aligned to its width"
            assert np.all(nodes["start"] >= horizon), "a node below its level's horizon"
            assert np.all((nodes["start"] <= nodes["first_us"]) & (nodes["first_us"] <= nodes["last_us"]))
            assert np.all(nodes["last_us"] < nodes["start"] + level.width_us), "a row outside its node"
            assert np.all((nodes["drops_low"] >= 0) & (nodes["drops_low"] <= nodes["drops_high"]))
        for index, (fine, coarse) in enumerate(pairwise(self._nodes)):
            kept = coarse[coarse["start"] >= self.horizons[index]]
            joined = fold_nodes(fine, self.levels[index + 1].width_us)
            for name in COUNTER.names or ():
                assert np.array_equal(kept[name], joined[name]), f"{name} of a parent is not its children's"

    def _advance(self, newest_us: int) -> None:
        if self._newest_us is None or newest_us > self._newest_us:
            self._newest_us = newest_us
            self.horizons = horizons(self.levels, newest_us)
            self._nodes = [
                nodes[np.searchsorted(nodes["start"], horizon) :]
                for nodes, horizon in zip(self._nodes, self.horizons, strict=True)
            ]

    def _raise(self, partials: Counters) -> None:
        """Join partials of level 1 into every level that keeps their time; parents from children where kept."""
        for index, (level, horizon) in enumerate(zip(self.levels, self.horizons, strict=True)):
            partials = fold_nodes(partials, level.width_us)
            whole_from = self.horizons[index - 1] if index else 2**62
            split = np.searchsorted(partials["start"], [horizon, max(horizon, whole_from)])
            self._join(index, partials[split[0] : split[1]])
            if split[1] < len(partials):
                self._join_children(index, int(partials["start"][split[1]]))

    def _join(self, index: int, partials: Counters) -> None:
        if len(partials):
            kept, after = self._split(index, int(partials["start"][0]))
            both = np.concatenate([after, partials])
            both = both[np.argsort(both["start"], kind="stable")]
            self._nodes[index] = np.concatenate([kept, fold_nodes(both, self.levels[index].width_us)])

    def _join_children(self, index: int, from_us: int) -> None:
        children = self._split(index - 1, from_us)[1]
        joined = fold_nodes(children, self.levels[index].width_us)
        self._nodes[index] = np.concatenate([self._split(index, from_us)[0], joined])

    def _split(self, index: int, at_us: int) -> tuple[Counters, Counters]:
        at = np.searchsorted(self._nodes[index]["start"], at_us)
        return self._nodes[index][:at], self._nodes[index][at:]

    def _pieces(self, index: int, start: int, end: int) -> Counters:
        """Return the nodes that answer a range in order of time, coarsest first; the outermost may be cut."""
        if start >= end:
            return self._nodes[index][:0]
        width = self.levels[index].width_us
        finer_from = self.horizons[index - 1] if index else end
        if finer_from >= end:
            return self._within(index, floor_to(width, start), end)
        if start < finer_from:
            older = self._within(index, floor_to(width, start), finer_from)
            return np.concatenate([older, self._pieces(index, finer_from, end)])
        inner_start, inner_end = -floor_to(width, -start), floor_to(width, end)
        if inner_start >= inner_end:
            return self._pieces(index - 1, start, end)
        inner = self._within(index, inner_start, inner_end)
        finer = self._pieces(index - 1, start, inner_start), self._pieces(index - 1, inner_end, end)
        return np.concatenate([finer[0], inner, finer[1]])

    def _within(self, index: int, start: int, end: int) -> Counters:
        first, after = np.searchsorted(self._nodes[index]["start"], [start, end])
        return self._nodes[index][first:after]

    def _name(self) -> str:
        spans = ", ".join(f"{level.width_us} for {level.keep_us}" for level in self.levels)
        return f"CounterTree [{spans}]"


def _increase(pieces: Counters, start: int, end: int) -> Increase:
    """Join pieces in order of time; the rows of the outermost may lie outside ``[start, end)``."""
    met = pieces[(pieces["last_us"] >= start) & (pieces["first_us"] < end)]
    # Of a node whose first and last row lie on either side of the range, two rows are all of it: none is inside.
    met = met[(met["first_us"] >= start) | (met["last_us"] < end) | (met["n"] > 2)]
    starts_in, ends_in = met["first_us"] >= start, met["last_us"] < end
    whole = starts_in & ends_in
    cut = met[~whole]
    chain_first = np.where(starts_in, met["first"], met["last"])
    chain_last = np.where(ends_in, met["last"], met["first"])
    # A node cut on both sides has no known row inside; it is the only piece, and no step meets it.
    falls = float(np.where(chain_first[1:] < chain_last[:-1], chain_last[:-1], 0.0).sum())
    known = float(chain_last[-1] - chain_first[0]) if np.any(starts_in | ends_in) else 0.0
    low, high = (known + (float(met[side][whole].sum()) + falls) for side in ("drops_low", "drops_high"))
    most = cut["last"] - cut["first"] + cut["drops_high"]
    value = low + float((_share(cut, start, end) * (cut["last"] - cut["first"] + cut["drops_low"])).sum())
    exact, high = low == high and not np.any(most > 0), high + float(most.sum())
    by = _rounding(met, falls, is_cut=len(cut) > 0)
    return Increase(value, max(0.0, low - by), high + by, bool(exact), len(pieces))


def _share(cut: Counters, start: int, end: int) -> npt.NDArray[np.float64]:
    """Return the part of the time between each node's first and last row that is inside the range."""
    inside = np.minimum(cut["last_us"], end) - np.maximum(cut["first_us"], start)
    share: npt.NDArray[np.float64] = inside / (cut["last_us"] - cut["first_us"])
    return share


def _rounding(met: Counters, falls: float, is_cut: bool) -> float:
    """Return by how much additions can be off: without resets and cut nodes there is one subtraction, and nothing."""
    drops = float(met["drops_high"].sum()) + falls
    if drops == 0 and not is_cut:
        return 0.0
    additions = 4 + (int(met["n"].sum()) if drops else 0)
    return EPS * additions * (drops + 2 * float(met["max"].max()))

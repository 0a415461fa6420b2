"""Kept levels one above the other, finest first: what both trees do alike once the horizons are known.

Invariant: a level holds no node below its horizon, and a parent whose children are all kept equals their
combination. A horizon is a multiple of its level's width, so a row's node is kept exactly if its time is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, floor_to
from tests.oracles.rollup.bounds import EPS
from tests.oracles.rollup.contract import AGGREGATES, Answers
from tests.oracles.rollup.descent import Descent
from tests.oracles.rollup.node_kernels import (
    BASE,
    END,
    HEAD,
    TAIL,
    drop_before,
    fold_scattered,
    raise_partials,
    survey,
    take_sorted,
)
from tests.oracles.rollup.nodes import NODE, KeptLevel, coarser
from tests.oracles.rollup.query_kernels import ANSWER, answer_ranges

if TYPE_CHECKING:
    import numpy.typing as npt

    from tests.oracles.rollup.contract import Aggregate, Times, Values
    from tests.oracles.rollup.descent import Spread
    from tests.oracles.rollup.nodes import Nodes

    Ints = npt.NDArray[np.int64]

ROOM = 16
PIECE = 1 << 14


class Batch(NamedTuple):
    """Rows as arrays and what one look at them told; times are of the rows that have a finite value."""

    times: Ints
    values: npt.NDArray[np.float64]
    finite: int
    first_us: int
    last_us: int
    newest_us: int
    in_order: bool


def batch_of(times: Times, values: Values) -> Batch | None:
    """Look at rows in any order; None if there are none.

    Raises:
        ValueError: when there is not one value for each time.
    """
    at = np.ascontiguousarray(times, dtype=np.int64)
    what = np.ascontiguousarray(values, dtype=np.float64)
    if at.shape != what.shape:
        raise ValueError(f"expected one value per time, found {at.size} times and {what.size} values")
    return Batch(at, what, *survey(at, what)) if at.size else None


class LevelStack:
    """Levels of the given widths, each with a horizon below which it keeps nothing.

    Cost: rows in order O(rows + nodes touched * levels); late ones O(log nodes) a node touched, and where
    they make nodes also the nodes after the first made. Rows out of order are sorted only where they are
    scattered over more than twice as many slots as there are rows.
    """

    def __init__(self, widths_us: Iterable[int], parts: Sequence[Nodes] = ()) -> None:
        self.widths = np.array(list(widths_us), dtype=np.int64)
        self.horizons: Ints = np.full(len(self.widths), KEPT_FOREVER_US, np.int64)
        self._partials = np.empty(ROOM, NODE)
        self._place(parts or [np.empty(0, NODE)] * len(self.widths), [ROOM] * len(self.widths))

    @classmethod
    def unpacked(cls, widths_us: Iterable[int], parts: Sequence[bytes]) -> LevelStack:
        """Return the stack that was packed; its horizons are yet to be moved."""
        return cls(widths_us, [np.frombuffer(part, NODE) for part in parts])

    @property
    def arrays(self) -> list[KeptLevel]:
        """The levels as they are now."""
        return [self.level(index) for index in range(len(self.widths))]

    def level(self, index: int) -> KeptLevel:
        """Return one level as it is now; -1 is the top."""
        return KeptLevel(self.store, self.spans[index], int(self.widths[index]))

    def packed(self) -> tuple[bytes, ...]:
        """Return the nodes of every level as bytes."""
        return tuple(array.live.tobytes() for array in self.arrays)

    def add(self, batch: Batch) -> None:
        """Combine the rows into every level that still keeps their time: folded once, then level by level."""
        if batch.finite == 0:
            return
        slots = (batch.last_us - batch.first_us) // int(self.widths[0]) + 2
        if batch.in_order:
            self._take(batch.times, batch.values)
        elif slots > 2 * len(batch.times) + ROOM:
            order = batch.times.argsort()
            self._take(batch.times[order], batch.values[order])
        else:
            self._take_scattered(batch, slots)

    def add_rows(self, times: Times, values: Values) -> None:
        """Combine rows in any order."""
        batch = batch_of(times, values)
        if batch is not None:
            self.add(batch)

    def add_top(self, width_us: int) -> None:
        """Fold a new top level from the present one, which must keep the whole past."""
        parts = [array.live for array in self.arrays]
        self.widths = np.append(self.widths, width_us)
        self.horizons = np.append(self.horizons, KEPT_FOREVER_US)
        self._place([*parts, coarser(parts[-1], width_us)], [ROOM] * len(self.widths))

    def move_horizons(self, horizons: Sequence[int]) -> None:
        """Set every level's horizon and forget what lies below."""
        self.horizons[:] = horizons
        drop_before(self.store, self.spans, self.widths, self.horizons)

    def read(self, start_us: int, end_us: int, spread: Spread = "remainder") -> Descent:
        """Return what the levels know about ``[start_us, end_us)``."""
        return Descent(self.arrays, self.horizons.tolist(), spread).read(start_us, end_us)

    def answer_ranges(
        self, starts: Times, ends: Times, aggregate: Aggregate, spread: Spread = "remainder"
    ) -> Answers:
        """Answer one aggregate over every ``[starts[i], ends[i])`` in one compiled call."""
        begin, stop = (np.ascontiguousarray(side, dtype=np.int64) for side in (starts, ends))
        if begin.shape != stop.shape:
            raise ValueError(f"expected one end per start, found {begin.size} starts and {stop.size} ends")
        out = np.empty(len(begin), ANSWER)
        levels = self.store, self.spans, self.widths, self.horizons
        answer_ranges(*levels, spread == "whole", begin, stop, AGGREGATES.index(aggregate), out)
        return Answers(*[out[name] for name in ANSWER.names or ()])

    def check(self) -> None:
        """Raise AssertionError if a level is broken, reaches below its horizon or contradicts the finer."""
        arrays, horizons = self.arrays, self.horizons.tolist()
        for array, horizon in zip(arrays, horizons, strict=True):
            array.check()
            assert not len(array) or array.live["start"][0] >= horizon, "a node below its level's horizon"
        for (fine, coarse), horizon in zip(pairwise(arrays), horizons[:-1], strict=True):
            whole_from = -floor_to(coarse.width_us, -horizon)
            coarse.check_against(fine, whole_from, EPS)

    def _take(self, times: Ints, values: npt.NDArray[np.float64]) -> None:
        """Take rows in order of time, in pieces whose partials stay in the processor's cache."""
        for at in range(0, len(times), PIECE):
            piece = times[at : at + PIECE], values[at : at + PIECE]
            partials = self._partials_for(len(piece[0]))
            state = take_sorted(self.store, self.spans, self.widths, self.horizons, *piece, partials)
            self._finish(partials, *state)

    def _take_scattered(self, batch: Batch, slots: int) -> None:
        partials = self._partials_for(slots)
        width = int(self.widths[0])
        origin = floor_to(width, batch.first_us)
        count = fold_scattered(batch.times, batch.values, width, origin, slots, partials)
        self._finish(partials, 0, count)

    def _finish(self, partials: Nodes, level: int, count: int) -> None:
        """Raise partials through the levels that they have not entered yet, making room where it lacks."""
        while level < len(self.widths):
            state = raise_partials(self.store, self.spans, self.widths, self.horizons, partials, count, level)
            if state[0] < len(self.widths):
                self._grow(*state)
            level, count = state

    def _partials_for(self, count: int) -> Nodes:
        if count > PIECE:
            return np.empty(count, NODE)
        if len(self._partials) < count:
            self._partials = np.empty(2 * count, NODE)
        return self._partials

    def _grow(self, level: int, extra: int) -> None:
        room = [int(span[END] - span[BASE]) for span in self.spans]
        parts = [array.live for array in self.arrays]
        room[level] = 2 * (len(parts[level]) + extra)
        self._place(parts, room)

    def _place(self, parts: Sequence[Nodes], room: Sequence[int]) -> None:
        """Lay the levels out in a new store, each with at least the room given."""
        sizes = [max(space, len(part)) for part, space in zip(parts, room, strict=True)]
        ends = np.cumsum(sizes, dtype=np.int64)
        self.store = np.empty(int(ends[-1]) if len(ends) else 0, NODE)
        self.spans: Ints = np.empty((len(sizes), 4), np.int64)
        self.spans[:, BASE] = self.spans[:, HEAD] = ends - sizes
        self.spans[:, END] = ends
        self.spans[:, TAIL] = self.spans[:, HEAD] + [len(part) for part in parts]
        for span, part in zip(self.spans, parts, strict=True):
            self.store[span[HEAD] : span[TAIL]] = part

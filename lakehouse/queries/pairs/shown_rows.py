"""Columns that pairs show of the rows that a bucket holds, by the kernel's numbers. No JVM.

Rows are in blocks, in order of their number; the rows of a batch are a block, or the end of one that is small. A block
is dropped when none of its rows is held any more, so a batch costs its own rows and a look at each block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.algorithms.late_join.contract import Int64s

# Blocks of fewer rows are put together with the next.
SMALL = 32_768


@dataclass(frozen=True)
class _Block:
    """Rows by ascending ``number``; ``times``: the event times of each side's, ascending."""

    numbers: Int64s
    rows: pa.Table
    times: tuple[Int64s, Int64s]

    def held(self, horizons_us: Sequence[int]) -> int:
        """Return how many rows are newer than their side's horizon."""
        sides = zip(self.times, horizons_us, strict=True)
        return sum(len(times) - int(np.searchsorted(times, horizon, "right")) for times, horizon in sides)


class ShownRows:
    """The rows that a bucket holds, and some that it no longer does."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []

    def add(self, rows: pa.Table, side: npt.NDArray[np.int8]) -> None:
        """Add rows with higher numbers than any before; their columns are as those of the rows before."""
        if not rows.num_rows:
            return
        event = rows["event_us"].to_numpy()
        block = _Block(_numbers(rows), rows, (np.sort(event[side == 0]), np.sort(event[side == 1])))
        if self._blocks and len(self._blocks[-1].numbers) < SMALL:
            block = _joined(self._blocks.pop(), block)
        self._blocks.append(block)

    def of(self, numbers: Int64s, new: pa.Table) -> pa.Table:
        """Return the rows of these numbers, of which the highest are among ``new``."""
        blocks = [*((block.numbers, block.rows) for block in self._blocks), (_numbers(new), new)]
        blocks = [(known, rows) for known, rows in blocks if len(known)]
        if not len(numbers):
            return new.slice(0, 0)
        which = np.searchsorted([known[0] for known, _ in blocks], numbers, "right") - 1
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(len(blocks) + 1))
        parts = []
        for place in np.unique(which).tolist():
            known, rows = blocks[place]
            wanted = numbers[order[ends[place] : ends[place + 1]]]
            parts.append(rows.take(pa.array(np.searchsorted(known, wanted))).cast(new.schema))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(parts).combine_chunks().take(pa.array(back))

    def drop(self, horizons_us: Sequence[int]) -> int:
        """Drop blocks of which no row is held; return how many rows are."""
        held = [block.held(horizons_us) for block in self._blocks]
        self._blocks = [block for block, count in zip(self._blocks, held, strict=True) if count]
        return sum(held)


def _numbers(rows: pa.Table) -> Int64s:
    numbers: Int64s = rows["number"].to_numpy()
    return numbers


def _joined(one: _Block, other: _Block) -> _Block:
    rows = pa.concat_tables([one.rows, other.rows.cast(one.rows.schema)]).combine_chunks()
    left, right = (np.sort(np.concatenate(both)) for both in zip(one.times, other.times, strict=True))
    return _Block(np.concatenate([one.numbers, other.numbers]), rows, (left, right))

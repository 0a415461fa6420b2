"""Rows on their way into the windows: what every method asks of its input, and when it takes it.

rows given   -> wait ->   enter, at the first tick that is not before ``enter_us``
|..x..x.....x|
        ticks   ^     ^
"""

from dataclasses import replace

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Bools, Int64s, Rows, Shape
from lakehouse.algorithms.join_aggregate.lanes import Lanes

# Before every tick.
NO_TICK = -(2**62)


class Arrivals:
    """Rows that wait to enter, and the last tick."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.tick_us = shape, NO_TICK
        self.waiting: Lanes[Rows] = Lanes(lambda rows: rows.enter_us, Rows.joined)

    def take(self, rows: Rows, ticks_us: Int64s) -> tuple[Int64s, Rows]:
        """Return the ticks, and the rows that enter up to the last of them, in any order; the others wait.

        Rows that no later tick can find in their windows are dropped. Cost: that of ``Lanes``. Raises ValueError: rows
        lack columns or are of sides that the shape does not have, or ticks do not ascend.
        """
        ticks = ascending(ticks_us, self.tick_us)
        rows = fitted(self.shape, rows)
        rows = _those(rows, rows.leave_us >= np.maximum(rows.enter_us, self.tick_us))
        if not len(ticks):
            self.waiting.push(rows)
            return ticks, Rows.none(self.shape)
        self.tick_us = int(ticks[-1])
        is_ready = rows.enter_us <= self.tick_us
        self.waiting.push(_those(rows, ~is_ready))
        ready = [*self.waiting.pop(self.tick_us + 1), _those(rows, is_ready)]
        return ticks, Rows.joined(ready) if len(ready) > 1 else ready[0]


def ascending(ticks_us: Int64s, after_us: int) -> Int64s:
    """Return ticks as an array. Raises ValueError when they do not ascend, or come before the last one."""
    ticks = np.ascontiguousarray(ticks_us, np.int64)
    if np.any(np.diff(ticks, prepend=after_us) <= 0):
        raise ValueError("expected ticks that ascend and are later than any before, found one that is not")
    return ticks


def fitted(shape: Shape, rows: Rows) -> Rows:
    """Return rows with what the shape reads; attributes that are not carried and groups that do not count are 0.

    Raises ValueError when columns are missing, or rows are of sides that the shape does not have.
    """
    found = rows.keys.shape[1], rows.values.shape[1]
    if found[0] < shape.width or found[1] < shape.columns:
        raise ValueError(
            f"expected at least {shape.width} columns of keys and {shape.columns} of values, found {found}"
        )
    if np.any(rows.side >= shape.sides):
        raise ValueError(f"expected rows of sides 0 to {shape.sides - 1}, found side {rows.side.max()}")
    carried = np.array([[number in own for number in range(shape.width)] for own in shape.attributes])
    keys = rows.keys[:, : shape.width]
    return replace(
        rows,
        keys=np.ascontiguousarray(keys if carried.all() else np.where(carried[rows.side], keys, 0)),
        values=np.ascontiguousarray(rows.values[:, : shape.columns]),
        group=np.where(np.array(shape.grouped)[rows.side], rows.group, 0),
    )


def _those(rows: Rows, which: Bools) -> Rows:
    return rows if which.all() else rows[which]

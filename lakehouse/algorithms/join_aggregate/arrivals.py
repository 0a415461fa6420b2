"""Rows on their way into the windows: what every method asks of its input, and the order in which it takes it.

rows given   -> wait ->   enter, at the first tick that is not before ``enter_us``
|..x..x.....x|            in order of enter_us, those of one time in order of arrival
        ticks   ^     ^
"""

from dataclasses import replace

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Int64s, Rows, Shape

# Before every tick.
NO_TICK = -(2**62)


class Arrivals:
    """Rows that wait to enter, and the last tick."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.tick_us, self.waiting = shape, NO_TICK, Rows.none(shape)

    def take(self, rows: Rows, ticks_us: Int64s) -> list[tuple[int, Rows]]:
        """Return for each tick the rows that enter up to it, in the order above; the others wait.

        Rows that no later tick can find in their windows are dropped. Cost: O(n log n) of the rows that wait. Raises
        ValueError: rows lack columns or are of sides that the shape does not have, or ticks do not ascend.
        """
        ticks = ascending(ticks_us, self.tick_us)
        rows = fitted(self.shape, rows)
        rows = rows[rows.leave_us >= np.maximum(rows.enter_us, self.tick_us)]
        waiting = Rows.joined([self.waiting, rows])
        waiting = waiting[np.argsort(waiting.enter_us, kind="stable")]
        ends = np.searchsorted(waiting.enter_us, ticks, side="right").tolist()
        self.waiting = waiting[ends[-1] if ends else 0 :]
        self.tick_us = int(ticks[-1]) if len(ticks) else self.tick_us
        starts = [0, *ends][: len(ends)]
        return [
            (tick, waiting[start:end]) for tick, start, end in zip(ticks.tolist(), starts, ends, strict=True)
        ]


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

"""Compiled windows whose join results are kept: each is added when its last row enters, and dropped once it has left.

Arguments are as in ``window_kernels.py``. ``kept``: the slots of each result's rows; ``leaves``: when it leaves.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from lakehouse.algorithms.join_aggregate.window_kernels import probe, put_in, take_out, write


@njit(cache=True)
def enter_rows(
    rows: Any,
    start: int,
    at_each: bool,
    windows: Any,
    plan: Any,
    work: Any,
    kept: Any,
    leaves: Any,
    many: int,
) -> Any:
    """Let rows from ``start`` on enter, ``many`` results being there; with ``at_each`` rows leave before each.

    Returns:
        Where it stopped for lack of room, how many results there are then, and how many the row there adds.
    """
    entries = windows[0]
    for at in range(start, len(rows[0])):
        if at_each:
            many = leave_before(rows[1][at], windows, plan, kept, leaves, many)
        slot = write(windows, rows, at)
        found = probe(windows, plan, slot, work, kept[many:])
        if many + found > len(kept):
            return at, many, found
        for result in range(many, many + found):
            leaves[result] = entries[slot].leave
            for side in range(kept.shape[1]):
                leaves[result] = min(leaves[result], entries[kept[result, side]].leave)
        many += found
        put_in(windows, plan, slot)
    return len(rows[0]), many, 0


@njit(cache=True)
def leave_before(now: int, windows: Any, plan: Any, kept: Any, leaves: Any, many: int) -> Any:
    """Let all rows and results leave that do so before ``now``; return how many results are left."""
    while take_out(windows, plan, now) >= 0:
        pass
    left = 0
    for result in range(many):
        if leaves[result] >= now:
            leaves[left] = leaves[result]
            kept[left, :] = kept[result, :]
            left += 1
    return left

"""Compiled windows whose join results are kept: each is added when its last row enters, and dropped once it has left.

Arguments are as in ``window_kernels.py``. ``kept``: the slots of each result's rows; ``leaves``: when it leaves. Both
are a heap, the first to leave at place 0: a result costs O(log results) when it enters, and as much when it leaves.
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
            _rise(kept, leaves, result)
        many += found
        put_in(windows, plan, slot)
    return len(rows[0]), many, 0


@njit(cache=True)
def leave_before(now: int, windows: Any, plan: Any, kept: Any, leaves: Any, many: int) -> Any:
    """Let all rows and results leave that do so before ``now``; return how many results are left."""
    while take_out(windows, plan, now) >= 0:
        pass
    while many > 0 and leaves[0] < now:
        many -= 1
        _swap(kept, leaves, 0, many)
        _sink(kept, leaves, many)
    return many


@njit(cache=True)
def _rise(kept: Any, leaves: Any, at: int) -> None:
    """Bring the result at a place to where no result above it leaves later."""
    while at > 0 and leaves[(at - 1) // 2] > leaves[at]:
        _swap(kept, leaves, at, (at - 1) // 2)
        at = (at - 1) // 2


@njit(cache=True)
def _sink(kept: Any, leaves: Any, many: int) -> None:
    """Bring the result at place 0 to where none of the ``many`` below it leaves earlier."""
    at, child = 0, 1
    while child < many:
        if child + 1 < many and leaves[child + 1] < leaves[child]:
            child += 1
        if leaves[child] >= leaves[at]:
            break
        _swap(kept, leaves, at, child)
        at, child = child, 2 * child + 1


@njit(cache=True)
def _swap(kept: Any, leaves: Any, one: int, other: int) -> None:
    leaves[one], leaves[other] = leaves[other], leaves[one]
    for side in range(kept.shape[1]):
        kept[one, side], kept[other, side] = kept[other, side], kept[one, side]

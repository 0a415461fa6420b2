"""Compiled envelopes: for each time the greatest of values that each are there from a time until another.

    value | ____                   what is known of rows that have entered, of which each says when it leaves: therefore
          |     |____              nothing is ever taken away, and late rows find what was there before
          |     .    |_______
          +------------------ time

An envelope is a chain of steps, the latest first: each has its value from its time on until that of the step after it;
NaN is none, as before the first step and from the last one on. A value is three limbs (``extremes.py``). What is joined
with an envelope is a *wave*: pieces from a time until another, each with a value, the latest first, side by side in
``spans`` and ``tops``.

After the time of the newest row an envelope only goes down, as no row is known that enters later: a row that is beaten
at a step there is beaten at all before it.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.kernels.extremes import is_less

# Columns of steps.
SINCE, EARLIER = range(2)
FAR = 2**62


@njit(cache=True, inline="always")
def _is_lower(heights: Any, at: Any, tops: Any, piece: Any) -> Any:
    """Tell if a step is none, or less than a piece."""
    own = heights[at, 0]
    return own != own or is_less(
        own, heights[at, 1], heights[at, 2], tops[piece, 0], tops[piece, 1], tops[piece, 2]
    )


@njit(cache=True, inline="always")
def _is_same(heights: Any, at: Any, tops: Any, piece: Any) -> Any:
    """Tell if a step, which may not be there, has the value of a piece."""
    return (
        at >= 0
        and heights[at, 0] == tops[piece, 0]
        and heights[at, 1] == tops[piece, 1]
        and heights[at, 2] == tops[piece, 2]
    )


@njit(cache=True)
def _put_in(cells: Any, cell: Any, column: Any, steps: Any, later: Any, since: Any, used: Any) -> None:
    """Put a new step behind the one that is later, or first."""
    if later < 0:
        steps[used, EARLIER] = cells[cell, column]
        cells[cell, column] = used
    else:
        steps[used, EARLIER] = steps[later, EARLIER]
        steps[later, EARLIER] = used
    steps[used, SINCE] = since


@njit(cache=True)
def raise_by(
    cells: Any, cell: Any, column: Any, steps: Any, heights: Any, spans: Any, tops: Any, piece: Any,
    is_newest: Any, used: Any,
) -> Any:  # fmt: skip
    """Raise the envelope that begins at ``cells[cell, column]`` to a piece; return how many steps are used then.

    There is room for two steps. ``is_newest``: no row is known that enters later than the piece begins.
    """
    since, until = spans[piece, 0], spans[piece, 1]
    later, at = np.int64(-1), cells[cell, column]
    while at >= 0 and steps[at, SINCE] > until:
        later, at = at, steps[at, EARLIER]
    if at >= 0 and steps[at, SINCE] == until:
        later, at = at, steps[at, EARLIER]
    elif at < 0 or _is_lower(heights, at, tops, piece):
        _put_in(cells, cell, column, steps, later, until, used)
        for limb in range(3):
            heights[used, limb] = heights[at, limb] if at >= 0 else np.nan
        later, used = used, used + 1
    while at >= 0 and steps[at, SINCE] >= since:
        is_lower = _is_lower(heights, at, tops, piece)
        if not is_lower and is_newest:
            return used
        if _is_same(heights, later, tops, piece) and (is_lower or _is_same(heights, at, tops, piece)):
            steps[later, SINCE], steps[later, EARLIER] = steps[at, SINCE], steps[at, EARLIER]
        else:
            if is_lower:
                heights[at] = tops[piece]
            later = at
        at = steps[later, EARLIER]
    if (at < 0 or _is_lower(heights, at, tops, piece)) and steps[later, SINCE] > since:
        if _is_same(heights, later, tops, piece):
            steps[later, SINCE] = since
        else:
            _put_in(cells, cell, column, steps, later, since, used)
            heights[used] = tops[piece]
            used += 1
    return used


@njit(cache=True)
def restricted(
    first: Any, steps: Any, heights: Any, spans: Any, tops: Any, begin: Any, end: Any, into: Any, is_met: Any
) -> Any:
    """Write pieces where an envelope is, with its values if ``is_met``, from ``into`` on.

    Returns where what is written ends; -1 if there is no room.
    """
    at, until = first, np.int64(FAR)
    for piece in range(begin, end):
        while at >= 0:
            since = max(steps[at, SINCE], spans[piece, 0])
            before = min(until, spans[piece, 1])
            if since < before and heights[at, 0] == heights[at, 0]:
                if into == len(spans):
                    return np.int64(-1)
                spans[into, 0], spans[into, 1] = since, before
                for limb in range(3):
                    tops[into, limb] = heights[at, limb] if is_met else tops[piece, limb]
                into += 1
            if steps[at, SINCE] <= spans[piece, 0]:
                break
            until, at = steps[at, SINCE], steps[at, EARLIER]
    return into


@njit(cache=True)
def step_at(first: Any, steps: Any, time: Any) -> Any:
    """Return the step of an envelope at a time, -1 for none."""
    at = first
    while at >= 0 and steps[at, SINCE] > time:
        at = steps[at, EARLIER]
    return at


@njit(cache=True)
def copy_steps(
    cells: Any, columns: Any, keep: Any, old: Any, old_heights: Any, new: Any, heights: Any
) -> Any:
    """Copy the steps of all envelopes that begin in some columns, but for those over by a time; return how many."""
    used = 0
    for cell in range(len(cells)):
        for column in range(columns[0], columns[1]):
            at, later, until = cells[cell, column], -1, np.int64(FAR)
            cells[cell, column] = -1
            while at >= 0 and until > keep:
                until = old[at, SINCE]
                new[used, SINCE], new[used, EARLIER], heights[used] = until, -1, old_heights[at]
                if later < 0:
                    cells[cell, column] = used
                else:
                    new[later, EARLIER] = used
                later, used, at = used, used + 1, old[at, EARLIER]
    return used

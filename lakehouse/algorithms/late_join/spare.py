"""Slack that costs nothing worth saving: while few rows are held, none is let go that may still be needed.

What is needed is only known from the past, and of few rows the past tells little: a bucket with a row a minute cannot
know how late one in a hundred comes. So a side keeps the slack that the latest of its known rows needed, and any slack
while fewer rows are known than may be spared; both as far as the rows held stay within the spare.
"""

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def spare_slack(known: Any, most: float, lasted_us: int, window_us: int, spare: int, grid: Any) -> Any:
    """Return, by side, the bin of the most slack that may be needed and keeps both sides within ``spare`` rows.

    Args:
        known: rows by stored side and the bin of slack that they needed.
        most: rows of both sides in the time that had most.
        lasted_us: how long each time was.
        window_us: the window of the join.
        spare: rows that may be held; 0 for none.
        grid: the slacks.

    At the highest rate known; where the rate jumps more are held, until it is known.
    """
    last = len(grid) - 1
    found: Any = np.zeros(len(known), np.int64)
    room_us = spare * lasted_us / most - window_us if most > 0 else float(grid[last])
    room = max(0, np.searchsorted(grid, room_us, side="right") - 1) if spare else 0
    for side in range(len(known)):
        seen = np.flatnonzero(known[side])
        latest = min(seen[-1], last) if len(seen) else 0
        needed = last if known[side].sum() < spare else latest
        found[side] = min(needed, room)
    return found

"""How much slack costs nothing worth saving: as long as few rows are held, none is let go that may still be needed.

What is needed is only known from the past, and of few rows the past tells little: a bucket with a row a minute cannot
know how late one in a hundred comes. So a side keeps the slack that the latest of its known rows needed, and any slack
while fewer rows are known than may be spared; both as far as the rows held stay within the spare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Float64s, Int64s


def spare_slack(behind: Float64s, lasted_us: int, window_us: int, spare: int, grid: Int64s) -> Int64s:
    """Return, by side, the bin of the most slack that may be needed and keeps both sides within ``spare`` rows.

    Args:
        behind: rows by time, stored side and the bin of slack that they needed.
        lasted_us: how long each of those times was.
        window_us: the window of the join.
        spare: rows that may be held; 0 for none.
        grid: the slacks.

    At the highest rate known; where the rate jumps more are held, until it is known.
    """
    rows, last = behind.sum(axis=2), len(grid) - 1
    most = rows.sum(axis=1).max()
    room_us = spare * lasted_us / most - window_us if most else float(grid[-1])
    room = max(0, int(np.searchsorted(grid, room_us, side="right")) - 1)
    seen = behind.sum(axis=0) > 0
    latest = np.where(seen.any(axis=1), seen.shape[1] - 1 - seen[:, ::-1].argmax(axis=1), 0)
    needed = np.where(rows.sum(axis=0) < spare, last, np.minimum(latest, last))
    found: Int64s = np.minimum(needed, room if spare else 0)
    return found

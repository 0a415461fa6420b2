"""Days of times in order of their day, and the rows of each minute of a day; cost: one pass, no division a row."""

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def find_days(times: Any, day_us: int, begins: Any) -> int:
    """Write where each day begins; return how many there are, -1 where a row is of an earlier day than one before."""
    found, start, end = 0, np.int64(0), np.int64(0)
    for row in range(len(times)):
        time = times[row]
        if start <= time < end:
            continue
        if found and time < start:
            return -1
        start = time - time % day_us
        end = start + day_us
        begins[found] = row
        found += 1
    return found


@njit(cache=True, nogil=True)
def minute_runs(times: Any, ends: Any, width_us: int, size: int, minutes: Any, rows: Any, out: Any) -> None:
    """Count the rows of each minute of each day, those with any, up to ``out[run]``; a day has ``size`` minutes."""
    counts, written = np.zeros(size, np.int64), 0
    for run in range(len(ends) - 1):
        counts[:] = 0
        start, end, minute = np.int64(0), np.int64(0), 0
        for row in range(ends[run], ends[run + 1]):
            time = times[row]
            if not start <= time < end:
                start = time - time % width_us
                end = start + width_us
                minute = (start // width_us) % size
            counts[minute] += 1
        for each in range(size):
            if counts[each]:
                minutes[written], rows[written] = each, counts[each]
                written += 1
        out[run] = written

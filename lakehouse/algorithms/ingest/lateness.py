"""Lateness of rows: the time by which they are behind the newest event time before them.

Rows of one batch have no order among its files: a row is late against what earlier batches had reached, and against
earlier rows of its own file. Rows with an arrival time have that order instead, across files; rows that arrived
together are not late against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 40
_DAY_US = 24 * 3600 * 1_000_000


@dataclass(frozen=True)
class Lateness:
    """Late rows: how many, the largest lateness in microseconds, and how many per power of two of milliseconds.

    Bin i counts rows of 2^i to 2^(i+1) milliseconds, bin 0 also those below one, the last bin all above. ``days``: how
    many of each day of event time, by its start, in order.
    """

    late: int
    max_us: int
    bins: tuple[int, ...]
    newest_us: int | None
    days: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(values: Mapping[str, Any]) -> Lateness:
        """Return the lateness whose fields have these values, as JSON has them."""
        tuples = {"bins": tuple(values["bins"]), "days": tuple(map(tuple, values["days"]))}
        return Lateness(**{**values, **tuples})

    def __add__(self, after: Lateness) -> Lateness:
        """Return the counts of both together."""
        bins = tuple(a + b for a, b in zip(self.bins, after.bins, strict=True))
        newest = [value for value in (self.newest_us, after.newest_us) if value is not None]
        sums = (self.late + after.late, max(self.max_us, after.max_us), bins, max(newest, default=None))
        return Lateness(*sums, tuple(sorted((Counter(dict(self.days)) + Counter(dict(after.days))).items())))


NOTHING_LATE = Lateness(0, 0, (0,) * BINS, None)


def measure(event_us: npt.NDArray[np.int64], newest_before_us: int | None) -> Lateness:
    """Return the lateness of rows that stand in order, the newest event time before them given (None for none).

    A row that moves the newest time, or equals it, is not late. Cost: O(rows), vectorised.
    """
    if not len(event_us):
        return Lateness(0, 0, (0,) * BINS, newest_before_us)
    newest = np.maximum.accumulate(np.maximum(event_us, _start(newest_before_us)))
    return _counted(event_us, newest - event_us, int(newest[-1]))


def measure_arrived(
    event_us: npt.NDArray[np.int64], arrival_us: npt.NDArray[np.int64], newest_before_us: int | None
) -> Lateness:
    """Return the lateness of rows by their arrival times, in whatever order they stand. Cost: a sort."""
    if not len(event_us):
        return Lateness(0, 0, (0,) * BINS, newest_before_us)
    order = np.argsort(arrival_us, kind="stable")
    times, arrivals = event_us[order], arrival_us[order]
    reached = np.append(_start(newest_before_us), np.maximum.accumulate(times))
    reached = np.maximum(reached, reached[0])
    # Of rows that arrived together, all have what was reached before the first.
    before = reached[np.searchsorted(arrivals, arrivals, "left")]
    return _counted(times, np.maximum(before, times) - times, int(reached[-1]))


def measure_files(
    event_us: npt.NDArray[np.int64],
    file: npt.NDArray[np.int64],
    newest_before_us: int | None,
    reached_us: dict[Hashable, int],
) -> Lateness:
    """Return the lateness of rows that stand in order inside each file; ``file`` tells their files apart.

    ``reached_us``: the newest time of each file in the rows before, which is brought up to date: rows may be
    measured in pieces. Cost: O(rows), and some array operations for each run of rows of one file.
    """
    found = Lateness(0, 0, (0,) * BINS, newest_before_us)
    ends = [0, *(np.flatnonzero(file[1:] != file[:-1]) + 1).tolist(), len(file)] if len(file) else []
    for low, high in pairwise(ends):
        of = int(file[low])
        own = measure(event_us[low:high], reached_us.get(of, newest_before_us))
        reached_us[of] = own.newest_us if own.newest_us is not None else 0
        found = found + own
    return found


def _start(newest_before_us: int | None) -> np.int64:
    return np.int64(np.iinfo(np.int64).min if newest_before_us is None else newest_before_us)


def _counted(event_us: npt.NDArray[np.int64], behind: npt.NDArray[np.int64], newest_us: int) -> Lateness:
    is_late = behind > 0
    late = behind[is_late]
    places = np.minimum(np.log2(np.maximum(late // 1000, 1)).astype(np.int64), BINS - 1)
    bins = tuple(int(count) for count in np.bincount(places, minlength=BINS))
    days, counts = np.unique(event_us[is_late] // _DAY_US, return_counts=True)
    by_day = tuple(zip((days * _DAY_US).tolist(), counts.tolist(), strict=True))
    return Lateness(len(late), int(late.max(initial=0)), bins, newest_us, by_day)

"""How far rows stand behind the newest event time before them, in processing order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BINS = 40


@dataclass(frozen=True)
class Lateness:
    """Late rows: how many, the largest lateness in microseconds, and how many per power of two of milliseconds.

    Bin i counts rows of 2^i to 2^(i+1) milliseconds, bin 0 also those below one, the last bin all above.
    """

    late: int
    max_us: int
    bins: tuple[int, ...]
    newest_us: int | None

    def __add__(self, after: Lateness) -> Lateness:
        """Return both together; ``after`` must have been measured from this one's newest time."""
        bins = tuple(a + b for a, b in zip(self.bins, after.bins, strict=True))
        newest = [value for value in (self.newest_us, after.newest_us) if value is not None]
        return Lateness(
            self.late + after.late, max(self.max_us, after.max_us), bins, max(newest, default=None)
        )


NOTHING_LATE = Lateness(0, 0, (0,) * BINS, None)


def measure(event_us: npt.NDArray[np.int64], newest_before_us: int | None) -> Lateness:
    """Return the lateness of rows in processing order, the newest event time before them given (None for none).

    A row that moves the newest time, or equals it, is not late. Cost: O(rows), vectorised.
    """
    if not len(event_us):
        return Lateness(0, 0, (0,) * BINS, newest_before_us)
    start = np.iinfo(np.int64).min if newest_before_us is None else newest_before_us
    newest = np.maximum.accumulate(np.maximum(event_us, start))
    behind = newest - event_us
    late = behind[behind > 0]
    places = np.minimum(np.log2(np.maximum(late // 1000, 1)).astype(np.int64), BINS - 1)
    bins = tuple(int(count) for count in np.bincount(places, minlength=BINS))
    return Lateness(len(late), int(late.max(initial=0)), bins, int(newest[-1]))

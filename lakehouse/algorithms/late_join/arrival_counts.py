"""Counts of arrived rows by side and granule of event time, in a ring of the newest granules.

A window is 32 granules wide, the ring 4096: the counts reach 64 windows back on either side of now.
"""

from typing import Any

import numpy as np
from numba import njit

GRANULES_PER_WINDOW = 32
RING = 4096
EMPTY = -(2**62)


class ArrivalCounts:
    """Counts of rows by side and granule of event time. ``granule_us`` is a 32nd of the window, 1 us at least."""

    def __init__(self, window_us: int) -> None:
        self.granule_us = max(1, window_us // GRANULES_PER_WINDOW)
        self.granules = np.full((2, RING), EMPTY, np.int64)
        self.counts = np.zeros((2, RING), np.int64)

    def pack(self) -> bytes:
        """Return what is counted; granules without rows take no space."""
        side, slot = np.nonzero(self.counts)
        return np.array([side, self.granules[side, slot], self.counts[side, slot]], np.int64).tobytes()

    def unpack(self, packed: bytes) -> None:
        """Take over what was packed."""
        side, granule, count = np.frombuffer(packed, np.int64).reshape(3, -1)
        self.granules.fill(EMPTY)
        self.counts.fill(0)
        self.granules[side, granule % RING] = granule
        self.counts[side, granule % RING] = count


@njit(cache=True)
def count_arrival(granules: Any, counts: Any, side: int, granule: int) -> None:
    """Count a row; one that is older than the ring reaches is left out."""
    slot = granule & (RING - 1)
    if granules[side, slot] < granule:
        granules[side, slot] = granule
        counts[side, slot] = 0
    if granules[side, slot] == granule:
        counts[side, slot] += 1


@njit(cache=True)
def arrived(granules: Any, counts: Any, side: int, granule: int) -> Any:
    """Return how many rows came for a granule, 0 for one that the ring has left behind."""
    slot = granule & (RING - 1)
    return counts[side, slot] if granules[side, slot] == granule else 0


@njit(cache=True)
def arrived_between(granules: Any, counts: Any, side: int, low: int, high: int, width: int) -> Any:
    """Return about how many rows came for times from ``low`` to ``high``; granules that are cut count by share."""
    first, last = low // width, high // width
    if first == last:
        return 0.0 + arrived(granules, counts, side, first) * (high - low + 1) / width
    total = 0.0 + arrived(granules, counts, side, first) * (first * width + width - low) / width
    for granule in range(first + 1, last):
        total += arrived(granules, counts, side, granule)
    return total + arrived(granules, counts, side, last) * (high - last * width + 1) / width

"""Which rows repeat an accepted one: verdicts over arrays sorted by identity, then by processing order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from lakehouse.algorithms.ingest.duplicates_scan import ACCEPTED, CONFLICT, DUPLICATE

__all__ = ["ACCEPTED", "CONFLICT", "DUPLICATE", "verdicts"]


@njit(cache=True)  # type: ignore[untyped-decorator]
def verdicts(
    identity: npt.NDArray[np.int64],
    payload: npt.NDArray[np.int64],
    event_us: npt.NDArray[np.int64],
    known: npt.NDArray[np.bool_],
    within_us: int,
) -> npt.NDArray[np.int8]:
    """Return one verdict per row as int8; see ``duplicates_scan.verdicts`` for what it means.

    ``identity`` (rows, 2), ``payload`` (rows,), ``event_us`` (rows,) int64 and ``known`` (rows,) bool are sorted by
    identity, and inside an identity known rows come first, then processing order. Cost: O(rows * accepted rows
    per identity), no allocation beyond the verdicts.
    """
    result = np.zeros(len(payload), np.int8)
    start = 0
    for row in range(len(payload)):
        if identity[row, 0] != identity[start, 0] or identity[row, 1] != identity[start, 1]:
            start = row
        if known[row]:
            continue
        for earlier in range(start, row):
            if result[earlier] == ACCEPTED and abs(event_us[earlier] - event_us[row]) <= within_us:
                if payload[earlier] == payload[row]:
                    result[row] = DUPLICATE
                    break
                result[row] = CONFLICT
    return result

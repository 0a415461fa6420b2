"""Readings of a measure that stand in order of their nodes, run by run, as one reading of each run.

A reading stands for so many values, between the least and the greatest, seen from a first to a last time. That of a row
is one value at one time, or none. Cost: one pass, a few operations a reading.
"""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True, nogil=True)
def fold_runs(
    edges: Any, counts: Any, lows: Any, highs: Any, firsts: Any, lasts: Any, found: Any, ends: Any, times: Any
) -> None:
    """Fold each run ``edges[i]:edges[i + 1]`` into ``found[i]``, ``ends[i]`` and ``times[i]``.

    ``found``: how many values; ``ends``: the least and the greatest; ``times``: the first and the last time. The latter
    two mean nothing where there is no value.
    """
    for run in range(len(edges) - 1):
        seen = 0
        for place in range(edges[run], edges[run + 1]):
            if counts[place] == 0:
                continue
            if seen == 0:
                ends[run, 0], ends[run, 1] = lows[place], highs[place]
                times[run, 0], times[run, 1] = firsts[place], lasts[place]
            else:
                ends[run, 0] = min(ends[run, 0], lows[place])
                ends[run, 1] = max(ends[run, 1], highs[place])
                times[run, 0] = min(times[run, 0], firsts[place])
                times[run, 1] = max(times[run, 1], lasts[place])
            seen += counts[place]
        found[run] = seen

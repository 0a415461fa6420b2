"""Compiled loops that fold readings of a counter into nodes.

In tables a partition's rows are folded in Arrow; joining nodes is the same code in both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.rollup.counter_kernels import COUNTER, fall_of


def fold_readings(times: Any, values: Any, width_us: int) -> Any:
    """Return readings in order of (time, value) as nodes of one width; cost O(rows)."""
    out = np.empty(len(times), COUNTER)
    return out[: _fold_readings(times, values, width_us, out)].copy()


@njit(cache=True)
def _fold_readings(times: Any, values: Any, width: int, out: Any) -> Any:
    made = 0
    for row in range(len(times)):
        start = times[row] - times[row] % width
        if made and out[made - 1].start == start:
            _take_reading(out[made - 1], times[row], values[row])
        else:
            _start_node(out[made], start, times[row], values[row])
            made += 1
    return made


@njit(cache=True)
def _start_node(node: Any, start: int, time_us: int, value: float) -> None:
    node.start = start
    node.n = 1
    node.first_us, node.last_us = time_us, time_us
    node.first, node.last, node.max = value, value, value
    node.drops_low, node.drops_high = 0.0, 0.0


@njit(cache=True)
def _take_reading(node: Any, time_us: int, value: float) -> None:
    node.n += 1
    fall = fall_of(node.last, value)
    node.drops_low += fall
    node.drops_high += fall
    node.last_us, node.last = time_us, value
    node.max = max(node.max, value)

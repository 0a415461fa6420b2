"""Compiled loop of the baseline: rows wait in a heap and leave it in order of event time, once T is K ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.contract import NO_TIME
from lakehouse.algorithms.late_join.slack_grid import bin_of
from lakehouse.algorithms.time_heap import pop, push

# Fields of `state`.
NEWEST_LEFT, NEWEST_RIGHT, TIME, LARGEST_DELAY, SLACK, NEXT_CHOICE, WAITING, NUMBER = range(8)


@njit(cache=True)
def reorder(
    rows: Any, start: int, state: Any, heap: Any, delays: Any, grows: bool, grid: Any, out: Any
) -> Any:
    """Take rows in until the next choice is due; return where it stopped and how many rows left the heap.

    ``out`` columns: number of the row that left, and T then; ``arrived``: T when each row came.
    """
    side, event = rows
    released, arrived = out
    left = 0
    for at in range(start, len(side)):
        newest = state[side[at]]
        delay = 0 if newest == NO_TIME else max(0, newest - event[at])
        delays[side[at], bin_of(grid, delay - 1, 1.0 / grid[1])] += 1.0
        state[LARGEST_DELAY] = max(state[LARGEST_DELAY], delay)
        if grows:
            state[SLACK] = max(state[SLACK], delay)
        state[side[at]] = max(newest, event[at])
        state[TIME] = max(state[TIME], min(state[NEWEST_LEFT], state[NEWEST_RIGHT]))
        arrived[at] = state[TIME]
        push(heap, state[WAITING], event[at], state[NUMBER])
        state[WAITING] += 1
        state[NUMBER] += 1
        left = release(state, heap, released, left)
        if state[TIME] >= state[NEXT_CHOICE]:
            return at + 1, left
    return len(side), left


@njit(cache=True)
def release(state: Any, heap: Any, released: Any, left: int) -> Any:
    """Let every row go whose time is K or more before T."""
    while state[WAITING] > 0 and heap[0, 0] <= state[TIME] - state[SLACK] and state[TIME] != NO_TIME:
        released[left, 0] = pop(heap, state[WAITING])
        released[left, 1] = state[TIME]
        state[WAITING] -= 1
        left += 1
    return left


@njit(cache=True)
def take_all(state: Any, heap: Any) -> Any:
    """Empty the heap: the numbers of its rows, earliest first."""
    numbers = np.empty(state[WAITING], np.int64)
    for index in range(len(numbers)):
        numbers[index] = pop(heap, state[WAITING])
        state[WAITING] -= 1
    return numbers

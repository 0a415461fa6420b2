"""Compiled loop of the baseline: rows wait in a heap and leave it in order of event time, once T is K ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.contract import NO_TIME
from lakehouse.algorithms.late_join.slack_grid import bin_of

# Fields of `state`.
NEWEST_LEFT, NEWEST_RIGHT, TIME, LARGEST_DELAY, SLACK, NEXT_CHOICE, WAITING, NUMBER = range(8)


@njit(cache=True)
def push(heap: Any, size: int, ts: int, number: int) -> None:
    """Add (ts, number) to a heap of this size; the caller has made room."""
    at = size
    while at > 0:
        parent = (at - 1) // 2
        if _is_before(heap[parent, 0], heap[parent, 1], ts, number):
            break
        heap[at] = heap[parent]
        at = parent
    heap[at, 0], heap[at, 1] = ts, number


@njit(cache=True)
def pop(heap: Any, size: int) -> Any:
    """Remove and return the number of the earliest row of a heap of this size."""
    number = heap[0, 1]
    ts, last = heap[size - 1, 0], heap[size - 1, 1]
    at, child = 0, 1
    while child < size - 1:
        if child + 1 < size - 1 and _is_before(
            heap[child + 1, 0], heap[child + 1, 1], heap[child, 0], heap[child, 1]
        ):
            child += 1
        if not _is_before(heap[child, 0], heap[child, 1], ts, last):
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at, 0], heap[at, 1] = ts, last
    return number


@njit(cache=True)
def _is_before(ts: int, number: int, other_ts: int, other_number: int) -> Any:
    return ts < other_ts or (ts == other_ts and number < other_number)


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
        delays[side[at], bin_of(grid, delay - 1)] += 1.0
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

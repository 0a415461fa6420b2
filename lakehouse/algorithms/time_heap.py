"""A heap of (time, number) in an array of two columns: the earliest is at hand, a change costs O(log n)."""

from typing import Any

from numba import njit


@njit(cache=True)
def push(heap: Any, size: int, time: int, number: int) -> None:
    """Add (time, number) to a heap of this size; the caller has made room."""
    at = size
    while at > 0:
        parent = (at - 1) // 2
        if _is_before(heap[parent, 0], heap[parent, 1], time, number):
            break
        heap[at] = heap[parent]
        at = parent
    heap[at, 0], heap[at, 1] = time, number


@njit(cache=True)
def pop(heap: Any, size: int) -> Any:
    """Remove and return the number of the earliest entry of a heap of this size."""
    number = heap[0, 1]
    time, last = heap[size - 1, 0], heap[size - 1, 1]
    at, child = 0, 1
    while child < size - 1:
        if child + 1 < size - 1 and _is_before(
            heap[child + 1, 0], heap[child + 1, 1], heap[child, 0], heap[child, 1]
        ):
            child += 1
        if not _is_before(heap[child, 0], heap[child, 1], time, last):
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at, 0], heap[at, 1] = time, last
    return number


@njit(cache=True)
def _is_before(time: int, number: int, other_time: int, other_number: int) -> Any:
    return time < other_time or (time == other_time and number < other_number)

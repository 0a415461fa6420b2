"""Compiled loops that join counter nodes of one interval; the rollup's partial nodes are combined by them."""

from typing import Any

import numpy as np
from numba import njit

COUNTER = np.dtype(
    [
        ("start", np.int64),
        ("n", np.int64),
        ("first_us", np.int64),
        ("last_us", np.int64),
        ("first", np.float64),
        ("last", np.float64),
        ("max", np.float64),
        ("drops_low", np.float64),
        ("drops_high", np.float64),
    ]
)


def fold_nodes(nodes: Any, width_us: int) -> Any:
    """Return nodes in order of start as nodes of one width, wider or the same; cost O(nodes)."""
    out = np.empty(len(nodes), COUNTER)
    return out[: _fold_nodes(nodes, width_us, out)].copy()


@njit(cache=True)
def _fold_nodes(nodes: Any, width: int, out: Any) -> Any:
    made = 0
    for index in range(len(nodes)):
        start = nodes[index].start - nodes[index].start % width
        if made and out[made - 1].start == start:
            _join(out[made - 1], nodes[index])
        else:
            out[made] = nodes[index]
            out[made].start = start
            made += 1
    return made


@njit(cache=True)
def fall_of(before: float, after: float) -> Any:
    """Return what a counter that starts again at 0 has lost between two readings."""
    return before if after < before else 0.0


@njit(cache=True)
def _is_before(time: int, value: float, other_time: int, other_value: float) -> Any:
    return time < other_time or (time == other_time and value <= other_value)


@njit(cache=True)
def _join(node: Any, other: Any) -> None:
    """Join two nodes of one interval: exactly if one lies before the other, else with what is sure."""
    if _is_before(node.last_us, node.last, other.first_us, other.first):
        fall = fall_of(node.last, other.first)
        node.drops_low += other.drops_low + fall
        node.drops_high += other.drops_high + fall
        node.last_us, node.last = other.last_us, other.last
    elif _is_before(other.last_us, other.last, node.first_us, node.first):
        fall = fall_of(other.last, node.first)
        node.drops_low += other.drops_low + fall
        node.drops_high += other.drops_high + fall
        node.first_us, node.first = other.first_us, other.first
    else:
        _join_overlapping(node, other)
    node.n += other.n
    node.max = max(node.max, other.max)


@njit(cache=True)
def _join_overlapping(node: Any, other: Any) -> None:
    first_us, first, last_us, last = node.first_us, node.first, node.last_us, node.last
    if _is_before(other.first_us, other.first, first_us, first):
        first_us, first = other.first_us, other.first
    if _is_before(last_us, last, other.last_us, other.last):
        last_us, last = other.last_us, other.last
    node_low = node.drops_low + fall_of(first, node.first) + fall_of(node.last, last)
    other_low = other.drops_low + fall_of(first, other.first) + fall_of(other.last, last)
    greatest = max(node.max, other.max)
    node_high = node.drops_high + other.n * greatest
    other_high = other.drops_high + node.n * greatest
    node.drops_low, node.drops_high = max(node_low, other_low), min(node_high, other_high)
    node.first_us, node.first, node.last_us, node.last = first_us, first, last_us, last

"""Compiled loops over the nodes of all levels: rows are folded, partial nodes raised and combined, ranges folded.

All levels lie in one array, the store. A span says where one of them is: ``(base, end, head, tail)``, room from
base to end, nodes from head to tail.

    store   |..[head ==== tail).....|...[== tail)..|[= tail)...|
            base       level 1    end    level 2      level 3

One call takes a whole batch through all levels, so that a small batch costs microseconds. numba remembers compiled code
by the file a function is in: every kernel that these call is in this file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

BASE, END, HEAD, TAIL = range(4)


@njit(cache=True)
def find(nodes: Any, head: int, tail: int, start: int, width: int) -> Any:
    """Return the index of the first node that starts at or after ``start``, a multiple of the width.

    Starts are different multiples of the width, so no more nodes than slots lie before ``start``, or after it: where
    no slot is empty the two bounds meet, and nothing is left to halve.
    """
    if tail == head or nodes[tail - 1].start < start:
        return tail
    if start <= nodes[head].start:
        return head
    low = max(head, tail - 1 - (nodes[tail - 1].start - start) // width)
    high = min(tail - 1, head + (start - nodes[head].start + width - 1) // width)
    while low < high:
        middle = (low + high) // 2
        if nodes[middle].start < start:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def plus(total: float, carry: float, value: float) -> Any:
    """Return ``(total, carry)`` after one more value, what rounding cuts off going to the carry."""
    together = total + value
    # Knuth's way finds what was cut off without asking which of the two is larger: no branch to guess wrong.
    seen = together - total
    return together, carry + ((total - (together - seen)) + (value - seen))


@njit(cache=True)
def _start_node(node: Any, start: int, time_us: int, value: float) -> None:
    node.start = start
    node.n = 1
    node.total = value
    node.carry = 0.0
    node.min = value
    node.max = value
    node.first_us = time_us
    node.last_us = time_us


@njit(cache=True)
def _take_row(node: Any, time_us: int, value: float) -> None:
    node.n += 1
    node.total, node.carry = plus(node.total, node.carry, value)
    node.min = min(node.min, value)
    node.max = max(node.max, value)
    node.first_us = min(node.first_us, time_us)
    node.last_us = max(node.last_us, time_us)


@njit(cache=True)
def _take_node(node: Any, other: Any) -> None:
    node.n += other.n
    node.total, node.carry = plus(node.total, node.carry + other.carry, other.total)
    node.min = min(node.min, other.min)
    node.max = max(node.max, other.max)
    node.first_us = min(node.first_us, other.first_us)
    node.last_us = max(node.last_us, other.last_us)


@njit(cache=True)
def survey(times: Any, values: Any) -> Any:
    """Return ``(finite rows, their first time, their last, the newest time of all rows, are they in order)``."""
    finite, first, last = 0, np.int64(0), np.int64(0)
    newest = times[0]
    in_order = True
    for row in range(len(times)):
        time_us = times[row]
        newest = max(newest, time_us)
        if not np.isfinite(values[row]):
            continue
        if finite == 0:
            first, last = time_us, time_us
        elif time_us >= last:
            last = time_us
        else:
            in_order = False
            first = min(first, time_us)
        finite += 1
    return finite, first, last, newest, in_order


@njit(cache=True)
def fold_sorted(times: Any, values: Any, width: int, out: Any) -> Any:
    """Fold rows in order of time into nodes, passing over values that are no number; return how many nodes."""
    made, end = 0, np.int64(0)
    for row in range(len(times)):
        # Adding 0.0 turns -0.0 into 0.0, which would otherwise let arrival order show in a snapshot.
        time_us, value = times[row], values[row] + 0.0
        if not np.isfinite(value):
            continue
        if made and time_us < end:
            _take_row(out[made - 1], time_us, value)
        else:
            start = time_us - time_us % width
            _start_node(out[made], start, time_us, value)
            end = start + width
            made += 1
    return made


@njit(cache=True)
def fold_scattered(times: Any, values: Any, width: int, origin: int, slots: int, out: Any) -> Any:
    """Fold rows in any order, one place of ``out`` for each slot from ``origin`` on; return how many nodes."""
    for slot in range(slots):
        out[slot].n = 0
    for row in range(len(times)):
        time_us, value = times[row], values[row] + 0.0
        if not np.isfinite(value):
            continue
        slot = (time_us - origin) // width
        if out[slot].n:
            _take_row(out[slot], time_us, value)
        else:
            _start_node(out[slot], origin + slot * width, time_us, value)
    made = 0
    for slot in range(slots):
        if out[slot].n:
            out[made] = out[slot]
            made += 1
    return made


@njit(cache=True)
def coarsen(nodes: Any, count: int, width: int) -> Any:
    """Combine the first ``count`` nodes, in place, into nodes of a wider width; return how many those are."""
    made, end = 0, np.int64(0)
    for index in range(count):
        if made and nodes[index].start < end:
            _take_node(nodes[made - 1], nodes[index])
        else:
            start = nodes[index].start - nodes[index].start % width
            nodes[made] = nodes[index]
            nodes[made].start = start
            end = start + width
            made += 1
    return made


@njit(cache=True)
def raise_partials(
    store: Any, spans: Any, widths: Any, horizons: Any, partials: Any, count: int, level: int
) -> Any:
    """Combine partials of a level into it and, ever coarser, into all above; the partials are used up.

    Returns ``(level, count)``: the first level that lacks the room, and the partials it waits for; the
    number of levels when all is done.
    """
    while level < len(widths):
        count = coarsen(partials, count, widths[level])
        first = find(partials, 0, count, horizons[level], widths[level])
        if not _has_room(store, spans[level], count - first):
            break
        _combine(store, spans[level], widths[level], partials, first, count)
        level += 1
    return level, count


@njit(cache=True)
def _has_room(store: Any, span: Any, extra: int) -> Any:
    if span[TAIL] + extra <= span[END]:
        return True
    live = span[TAIL] - span[HEAD]
    # Moving what is kept to the front pays only where it makes room for as much again.
    if 2 * (live + extra) > span[END] - span[BASE]:
        return False
    for index in range(live):
        store[span[BASE] + index] = store[span[HEAD] + index]
    span[HEAD], span[TAIL] = span[BASE], span[BASE] + live
    return True


@njit(cache=True)
def _combine(store: Any, span: Any, width: int, partials: Any, first: int, count: int) -> None:
    """Combine sorted partials into the nodes of their start, then move apart for those that have none."""
    at, tail, missing = span[HEAD], span[TAIL], 0
    for index in range(first, count):
        start = partials[index].start
        at = find(store, at, tail, start, width)
        if at < tail and store[at].start == start:
            _take_node(store[at], partials[index])
        else:
            missing += 1
    if missing:
        _insert_missing(store, span, partials, count, missing)


@njit(cache=True)
def _insert_missing(store: Any, span: Any, partials: Any, count: int, missing: int) -> None:
    """Merge from the newest backwards, so that nothing before the first missing node is moved."""
    read, write, index = span[TAIL] - 1, span[TAIL] + missing - 1, count - 1
    span[TAIL] += missing
    while missing:
        start = partials[index].start
        while read >= span[HEAD] and store[read].start > start:
            store[write] = store[read]
            read -= 1
            write -= 1
        if read < span[HEAD] or store[read].start < start:
            store[write] = partials[index]
            write -= 1
            missing -= 1
        index -= 1


@njit(cache=True)
def take_sorted(
    store: Any, spans: Any, widths: Any, horizons: Any, times: Any, values: Any, partials: Any
) -> Any:
    """Fold rows in order of time and raise them through all levels; returns as ``raise_partials``."""
    count = fold_sorted(times, values, widths[0], partials)
    return raise_partials(store, spans, widths, horizons, partials, count, 0)


@njit(cache=True)
def drop_before(store: Any, spans: Any, widths: Any, horizons: Any) -> None:
    """Forget the nodes of every level that start before its horizon."""
    for level in range(len(spans)):
        span = spans[level]
        if span[HEAD] < span[TAIL] and store[span[HEAD]].start < horizons[level]:
            span[HEAD] = find(store, span[HEAD], span[TAIL], horizons[level], widths[level])


@njit(cache=True)
def fold_range(store: Any, head: int, tail: int, width: int, start: int, end: int) -> Any:
    """Return ``(nodes, n, total, carry, min, max, magnitude)`` of all nodes that start in ``[start, end)``."""
    first = find(store, head, tail, start, width)
    index = first
    n, total, carry, magnitude = 0, 0.0, 0.0, 0.0
    low, high = np.inf, -np.inf
    while index < tail and store[index].start < end:
        node = store[index]
        n += node.n
        total, carry = plus(total, carry + node.carry, node.total)
        # Python's min and max ask about NaN first, which no node holds; the larger size is of the least or greatest.
        least, greatest = node.min, node.max
        if least < low:
            low = least
        if greatest > high:
            high = greatest
        magnitude += node.n * (greatest if greatest > -least else -least)
        index += 1
    return index - first, n, total, carry, low, high, magnitude

"""Compiled loops of the repair: which rows can be in a missing pair, and a join of those in order of event time."""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.probing import DISTANCE, EQUALITY, compare, is_near, is_near_exactly


@njit(cache=True)
def mark_reached(
    logged: Any, horizon: Any, window: int, side: Any, event: Any, cells: Any, offsets: Any, marks: Any
) -> None:
    """Mark cells and times, by side, in which a logged row may have missed a partner.

    ``marks`` bool, its length a power of two, is a hash table without keys: marks that collide cost time, no pair.
    """
    width = window + 1
    for number in range(len(logged)):
        at = logged[number]
        low, high = event[at] - window, min(horizon[number], event[at] + window)
        if low > high:
            continue
        for granule in range(low // width, high // width + 1):
            for offset in offsets:
                marks[_place(cells[at] + offset, granule, 1 - side[at], len(marks))] = True


@njit(cache=True)
def keep_reached(kept: Any, window: int, side: Any, event: Any, cells: Any, usable: Any, marks: Any) -> None:
    """Set ``kept`` for usable rows in marked cells and times."""
    width = window + 1
    for at in range(len(kept)):
        if usable[at] and marks[_place(cells[at], event[at] // width, side[at], len(marks))]:
            kept[at] = True


@njit(cache=True)
def _place(cell: int, granule: int, side: int, places: int) -> Any:
    mixed = np.uint64(cell) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(2 * granule + side)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return (mixed >> np.uint64(32)) & np.uint64(places - 1)


@njit(cache=True)
def join_in_order(rows: Any, start: int, window: int, plan: Any, chains: Any, most: int, pairs: Any) -> Any:
    """Write (later, earlier) position of each missing pair; return how far it came and how many pairs there are.

    ``rows`` are in order of event time; of each ``position`` in processing order and ``missed``, the time up to which
    it missed the rows processed before it. It stops where ``pairs`` may have no room for a row, which has
    ``most`` partners at most. ``chains``: heads by hash and side, and each row's next older one, -1 at the end.
    """
    side, event, cells, numbers, position, missed = rows
    shape, reach, offsets, comparisons = plan
    heads, following = chains
    kind, first, second, is_exact = shape
    width, bound, words = reach[0].double, reach[0], numbers.view(np.int64)
    slots, found, is_compared = len(heads), 0, len(comparisons) > 0
    for at in range(start, len(side)):
        if pairs.shape[1] - found < most:
            return at, found
        mine, low, own = side[at], event[at] - window, position[at]
        for offset in offsets:
            cell = cells[at] + offset
            where = heads[_place(cell, 0, 0, slots), 1 - mine]
            # Rows of a chain go back in time: behind the first that is too old there is nothing.
            while where >= 0 and event[where] >= low:
                partner, where = where, following[where]
                if cells[partner] != cell:
                    continue
                if position[partner] < own:
                    if event[partner] > missed[at]:
                        continue
                elif event[at] > missed[partner]:
                    continue
                if is_exact:
                    if not is_near_exactly(bound, words, at, words, partner, kind, first, second):
                        continue
                elif kind != EQUALITY:
                    dx = numbers[at, first] - numbers[partner, first]
                    dy = numbers[at, second] - numbers[partner, second]
                    if not is_near(width, dx, dy, kind == DISTANCE):
                        continue
                if is_compared and not compare(
                    comparisons, numbers, words, at, mine, numbers, words, partner
                ):
                    continue
                pairs[0, found] = max(own, position[partner])
                pairs[1, found] = min(own, position[partner])
                found += 1
        slot = _place(cells[at], 0, 0, slots)
        following[at], heads[slot, mine] = heads[slot, mine], at
    return len(side), found

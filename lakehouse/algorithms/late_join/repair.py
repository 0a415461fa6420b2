"""The pairs that the online join missed, from its log: each once, and none that was found online.

A row x was logged with H, the other side's horizon when x was processed. Its missing pairs are those with a row y

    of the other side, processed before x,  |x.ts - y.ts| <= w,  the condition,  y.ts <= H

Why: online, x met every earlier y above H that was kept, and a y that was not kept lay at or below the horizon of its
own side, which has only grown since. A pair is found by its later row alone, online or here, never both.

How: rows that no logged row can have missed are left out, by marks of cells and windows of time. What is left is joined
in order of event time, and a pair is told apart by its later processed row: was it logged, and with which horizon.

Cost: a few nanoseconds a row, then a join of what is left: of few rows where few were logged, of all rows once where
most were, which costs about what joining again does. Memory O(rows).

Source: ours; the paper leaves incomplete results incomplete.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.conditions import Condition
from lakehouse.algorithms.late_join.contract import LEFT, NO_TIME, Batch, Bools, Int64s, Pairs, read_only
from lakehouse.algorithms.late_join.probing import DISTANCE, EQUALITY, Plan, compare, is_near, is_near_exactly

# Above this share of logged rows nearly every row is in reach of one, and looking for those that are not costs more.
MARKED_SHARE = 0.2
# Room for pairs of one call of the kernel at least.
LEAST_ROOM = 16_384


def missing_pairs(
    condition: Condition,
    window_us: int,
    rows: Batch,
    logged: Int64s,
    horizon_us: Int64s,
    wait_us: Int64s | None = None,
) -> Pairs:
    """Return the pairs that logged rows have missed.

    Args:
        condition: the join's condition.
        window_us: the join's window.
        rows: the logged rows and all candidates, in processing order; rows that were refused must be left out.
        logged: positions of the logged rows in ``rows``, int64.
        horizon_us: what was logged with each, int64.
        wait_us: stream time of the repair less the logged ``time_us`` of each logged row; 0 where it is not given.

    Raises ValueError when logged positions and horizons differ in number.
    """
    if len(logged) != len(horizon_us):
        raise ValueError(
            f"expected one horizon per logged row, found {len(horizon_us)} for {len(logged)} rows"
        )
    plan = Plan.of(condition)
    cells, usable = map(read_only, plan.cells(rows))
    can = usable[logged]
    logged_at, horizon_us = logged[can], horizon_us[can]
    kept = _reached(plan, window_us, rows, cells, usable, logged_at, horizon_us)
    missed = np.full(len(rows), NO_TIME)
    missed[logged_at] = horizon_us
    order = kept[np.argsort(rows.event_us[kept], kind="stable")]
    later, earlier = _joined(plan, window_us, rows, cells, order, missed)
    waits = np.zeros(len(rows), np.int64)
    if wait_us is not None:
        waits[logged] = wait_us
    return _as_pairs(rows, later, earlier, waits)


def _reached(
    plan: Plan, window_us: int, rows: Batch, cells: Int64s, usable: Bools, logged: Int64s, horizon_us: Int64s
) -> Int64s:
    """Return the logged rows, and those that lie in a cell and a window of time in reach of one; some more."""
    if len(logged) > MARKED_SHARE * len(rows):
        return np.flatnonzero(usable)
    kept = np.zeros(len(rows), np.bool_)
    kept[logged] = True
    # A logged row reaches three windows at most; marks are sparse, so that few rows are kept for nothing.
    marks = np.zeros(_power(16 * len(logged) * len(plan.offsets)), np.bool_)
    columns = rows.side, rows.event_us, cells
    mark_reached(logged, horizon_us, window_us, *columns, plan.offsets, marks)
    keep_reached(kept, window_us, *columns, usable, marks)
    return np.flatnonzero(kept)


def _joined(
    plan: Plan, window_us: int, rows: Batch, cells: Int64s, order: Int64s, missed: Int64s
) -> tuple[Int64s, Int64s]:
    """Return (later, earlier) of each missing pair, of rows in order of event time."""
    event, numbers = rows.event_us[order], rows.numbers[order]
    columns = rows.side[order], event, cells[order], numbers, order, missed[order]
    parts = plan.shape, plan.reach, plan.offsets, plan.comparisons
    most = int((np.arange(len(event)) - np.searchsorted(event, event - window_us)).max(initial=0)) + 1
    chains = np.full((_power(most), 2), -1, np.int64), np.empty(len(order), np.int64)
    room, at, found = np.empty((2, max(2 * most, LEAST_ROOM)), np.int64), 0, [np.empty((2, 0), np.int64)]
    while at < len(order):
        at, pairs = join_in_order(columns, at, window_us, parts, chains, most, room)
        found.append(room[:, :pairs].copy())
    later, earlier = np.concatenate(found, axis=1)
    return later, earlier


def _power(least: int) -> int:
    return 1 << max(8, (least - 1).bit_length())


def _as_pairs(rows: Batch, later: Int64s, earlier: Int64s, waits: Any) -> Pairs:
    is_left = rows.side[later] == LEFT
    return Pairs(
        left=rows.row[np.where(is_left, later, earlier)],
        right=rows.row[np.where(is_left, earlier, later)],
        event_us=np.maximum(rows.event_us[later], rows.event_us[earlier]),
        wait_us=waits[later],
    )


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

"""The pairs that the online join missed, from its log: each once, and none that was found online.

A row x was logged with H, the other side's horizon when x was processed. Its missing pairs are those with a row y

    of the other side, processed before x,  |x.ts - y.ts| <= w,  the condition,  y.ts <= H

Why: online, x met every earlier y above H that was kept, and a y that was not kept lay at or below the horizon of its
own side, which has only grown since. A pair is found by its later row alone, online or here, never both.

Cost: O(candidates log candidates) to put them in order, then O(log + partners) a logged row. Candidates may be narrowed
to the times around logged rows (``reach_us``), so the cost follows the log, not the history. Memory O(candidates).

Source: ours; the paper leaves incomplete results incomplete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lakehouse.algorithms.late_join.contract import LEFT, Pairs
from lakehouse.algorithms.late_join.probing import Plan
from lakehouse.algorithms.late_join.repair_kernels import find_missing

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.conditions import Condition
    from lakehouse.algorithms.late_join.contract import Batch, Bools, Int64s


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

    Raises:
        ValueError: logged positions and horizons differ in number.
    """
    if len(logged) != len(horizon_us):
        raise ValueError(
            f"expected one horizon per logged row, found {len(horizon_us)} for {len(logged)} rows"
        )
    plan = Plan.of(condition)
    cells, usable = plan.cells(rows)
    keep = usable & _within_reach(rows.event_us, logged, horizon_us, window_us)
    index = tuple(
        _ordered(np.flatnonzero(keep & (rows.side == side)), cells, rows.event_us) for side in (0, 1)
    )
    columns = (
        rows.side,
        rows.event_us,
        cells,
        rows.numbers,
        np.broadcast_to(rows.numbers, (2, *rows.numbers.shape)),
    )
    can = usable[logged]
    parts = plan.shape, plan.reach, plan.offsets, plan.comparisons
    found = find_missing(logged[can], horizon_us[can], window_us, parts, columns, index)
    waits = np.zeros(len(rows), np.int64)
    if wait_us is not None:
        waits[logged] = wait_us
    return _as_pairs(rows, found[:, 0], found[:, 1], waits)


def reach_us(event_us: Int64s, horizon_us: Int64s, window_us: int) -> tuple[Int64s, Int64s]:
    """Return the first and last event time at which each logged row can have missed a partner."""
    return event_us - window_us, np.minimum(horizon_us, event_us + window_us)


def _within_reach(event_us: Int64s, logged: Int64s, horizon_us: Int64s, window_us: int) -> Bools:
    """Tell which rows lie in reach of any logged row, of either side."""
    first, last = reach_us(event_us[logged], horizon_us, window_us)
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    where = np.searchsorted(first, event_us, side="right") - 1
    near = where >= 0
    near[near] = event_us[near] <= last[where[near]]
    return near


def _ordered(candidates: Int64s, cells: Int64s, event_us: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    order = candidates[np.lexsort((event_us[candidates], cells[candidates]))]
    return order, cells[order], event_us[order]


def _as_pairs(rows: Batch, later: Int64s, earlier: Int64s, waits: Any) -> Pairs:
    is_left = rows.side[later] == LEFT
    return Pairs(
        left=rows.row[np.where(is_left, later, earlier)],
        right=rows.row[np.where(is_left, earlier, later)],
        event_us=np.maximum(rows.event_us[later], rows.event_us[earlier]),
        is_repair=np.ones(len(later), np.bool_),
        wait_us=waits[later],
    )

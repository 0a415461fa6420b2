"""Compiled loops of the needed-slack policy: what logged rows may have missed, and the cheapest slacks that suffice."""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.arrival_counts import arrived, arrived_between, count_arrival
from lakehouse.algorithms.late_join.contract import NO_TIME
from lakehouse.algorithms.late_join.slack_grid import bin_of, quotient
from lakehouse.algorithms.late_join.spare import spare_slack

# One row in so many tells the selectivity of all.
SAMPLED = 16
# Fields of `totals`: matches and offers of sampled rows, and how many rows were looked at.
MATCHES, OFFERS, SEEN = range(3)


@njit(cache=True)
def learn(
    trace: Any, window: int, width: int, grid: Any, quarter: Any, estimated: Any, behind: Any, arrivals: Any
) -> None:
    """Add rows to a quarter: their lag behind T, and for logged rows the slack that missed pairs may have needed.

    ``estimated`` and ``behind`` are sides x bins, by stored side; ``quarter`` are the totals that go with them.
    """
    granules, counts = arrivals
    _count_lags(trace, window, grid, behind)
    seen, per_us = int(quarter[SEEN]), 1.0 / width
    began = trace[0].ts // width if len(trace) else 0
    for index in range(len(trace)):
        row = trace[index]
        is_sampled = seen % SAMPLED == 0
        if row.logged or is_sampled:
            low, high = max(row.ts - window, row.horizon + 1), row.ts + window
            offers = 0.0
            if low <= high:
                offers = arrived_between(granules, counts, 1 - row.side, low, high, width)
            if is_sampled:
                quarter[MATCHES] += row.matches
                quarter[OFFERS] += offers
            if row.logged:
                _add_missed(row, offers, window, width, grid, quarter, estimated[1 - row.side], arrivals)
        seen += 1
        granule = began + quotient(row.ts - began * width, width, per_us)
        count_arrival(granules, counts, row.side, granule)
    quarter[SEEN] = seen


@njit(cache=True)
def _count_lags(trace: Any, window: int, grid: Any, behind: Any) -> None:
    """Count rows by their lag behind T, by the other side.

    Most rows are on time and share a bin. The late ones, which cannot be foreseen, are listed first, without a branch.
    """
    late, found, on_time, on_time_left = np.empty(len(trace), np.int64), 0, 0, 0
    for index in range(len(trace)):
        row = trace[index]
        is_known, is_late = row.time != NO_TIME, row.edge + window >= row.ts
        late[found] = index
        found += is_known & is_late
        on_time += is_known & (not is_late)
        on_time_left += is_known & (not is_late) & (row.side == 0)
    behind[1, 0] += on_time_left
    behind[0, 0] += on_time - on_time_left
    per_us = 1.0 / grid[1]
    for index in range(found):
        row = trace[late[index]]
        behind[1 - row.side, bin_of(grid, row.edge + window - row.ts, per_us)] += 1.0


@njit(cache=True)
def _add_missed(
    row: Any,
    offers: float,
    window: int,
    width: int,
    grid: Any,
    quarter: Any,
    estimated: Any,
    arrivals: Any,
) -> None:
    """Spread what a logged row may have missed over the slacks that it would have needed."""
    granules, counts = arrivals
    low, high = row.ts - window, min(row.horizon, row.ts + window)
    usual = quarter[MATCHES] / quarter[OFFERS] if quarter[MATCHES] > 0.0 and quarter[OFFERS] > 0.0 else 0.0
    if usual > 0.0:
        share = (row.matches + 2.0) / (offers + 2.0 / usual)
    else:
        share = row.matches / offers if offers > 0.0 else 0.0
    share = min(share, 1.0)
    per_us = 1.0 / grid[1]
    for granule in range(low // width, high // width + 1):
        count = arrived(granules, counts, 1 - row.side, granule)
        if count:
            first, last = max(low, granule * width), min(high, granule * width + width - 1)
            needed = row.edge - (first + last) // 2
            estimated[bin_of(grid, needed, per_us)] += share * count * (last - first + 1) / width


@njit(cache=True)
def sum_settled(counted: Any, estimated: Any, behind: Any, quarters: int) -> Any:
    """Return what all choices of a quarter share, as ``asked_of`` takes it.

    That is, of periods of so many ``quarters``: pairs that each slack covers and pairs of all periods, where the last
    one is left open; pairs of that last period before the newest quarter; rows of all quarters before it by lag, and
    most rows of one of them.
    """
    ends, bins = len(counted) - quarters + 1, counted.shape[2]
    pairs = counted + estimated
    sides = counted.shape[1]
    covered, totals = np.zeros((ends, sides, bins - 1)), np.zeros(ends)
    for period in range(ends - 1):
        within = pairs[period]
        for quarter in range(period + 1, period + quarters):
            within = within + pairs[quarter]
        totals[period] = _cover(within, covered[period])
    open_pairs, known, most = np.zeros((sides, bins)), np.zeros((sides, bins)), 0.0
    for quarter in range(ends - 1, len(pairs) - 1):
        open_pairs += pairs[quarter]
    for quarter in range(len(pairs) - 1):
        known += behind[quarter]
        most = max(most, behind[quarter].sum())
    return covered, totals, open_pairs, known, most


@njit(cache=True)
def _cover(pairs: Any, covered: Any) -> Any:
    """Write how many of a period's pairs each slack covers; return how many there are."""
    total = 0.0
    for side in range(len(pairs)):
        running = 0.0
        for index in range(covered.shape[1]):
            running += pairs[side, index]
            covered[side, index] = running
        total += running + pairs[side, covered.shape[1]]
    return total


@njit(cache=True)
def asked_of(settled: Any, newest: Any, rule: Any, spare: Any, grid: Any) -> Any:
    """Return what slacks have to cover: ``covered``, ``totals``, ``share`` and ``least`` as ``cheapest`` takes them.

    Also the rows known of each side.

    Args:
        settled: as ``sum_settled`` returns it; its last period is written over.
        newest: counted and estimated pairs and rows by lag of the newest quarter.
        rule: the share of pairs that every period must reach with the share of rows that may be logged, both where
            the latest period has few pairs, and with how many pairs it no longer has.
        spare: how long a quarter lasted, the window, rows to spare.
        grid: the slacks.
    """
    covered, totals, open_pairs, known, most = settled
    counted, estimated, behind = newest
    totals[-1] = _cover(open_pairs + counted + estimated, covered[-1])
    known = known + behind
    (share, logged), of_few, few = rule
    if totals[-1] < few:
        share, logged = of_few
    lasted, window, rows = spare
    least = spare_slack(known, max(most, behind.sum()), lasted, window, rows, grid)
    for side in range(len(known)):
        least[side] = max(least[side], _least_logged(known[side], logged, len(grid)))
    return covered, totals, share, least, known.sum(axis=1)


@njit(cache=True)
def _least_logged(known: Any, logged: float, slacks: int) -> Any:
    """Return the bin of the least slack with which at most that share of a side's rows is logged."""
    beyond = rows = known.sum()
    for index in range(slacks):
        beyond -= known[index]
        if beyond <= logged * rows:
            return index
    return slacks - 1


@njit(cache=True)
def cheapest(covered: Any, totals: Any, share: float, least: Any, rates: Any, grid: Any) -> Any:
    """Return the bins of both slacks that need least memory and cover a share of every period's pairs.

    ``covered`` is periods x sides x slacks, pairs that each slack covers; ``totals`` pairs of each period; ``least``
    bins below which no side goes. Where nothing covers enough the largest useful slack is taken. Cost O(periods x
    slacks) at most, and of the periods that the least slacks leave incomplete: the more slack one side has, the less
    the other needs.
    """
    last = covered.shape[2] - 1
    periods = _incomplete(covered, totals, share, least)
    right = last
    best_left, best_right, best = last, last, np.inf
    for left in range(least[0], last + 1):
        if grid[left] * rates[0] + grid[least[1]] * rates[1] >= best:
            break
        while right > least[1] and _suffices(covered, totals, share, periods, left, right - 1):
            right -= 1
        if not _suffices(covered, totals, share, periods, left, right):
            continue
        memory = grid[left] * rates[0] + grid[right] * rates[1]
        if memory < best:
            best_left, best_right, best = left, right, memory
    return best_left, best_right


@njit(cache=True)
def _incomplete(covered: Any, totals: Any, share: float, least: Any) -> Any:
    """Return the periods of which the least slacks cover too little; those of no other change a choice."""
    found, count = np.empty(len(totals), np.int64), 0
    for period in range(len(totals)):
        if covered[period, 0, least[0]] + covered[period, 1, least[1]] < share * totals[period] - 1e-9:
            found[count] = period
            count += 1
    return found[:count]


@njit(cache=True)
def _suffices(covered: Any, totals: Any, share: float, periods: Any, left: int, right: int) -> Any:
    for period in periods:
        if covered[period, 0, left] + covered[period, 1, right] < share * totals[period] - 1e-9:
            return False
    return True

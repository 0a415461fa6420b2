"""With which slack all periods would have met their recall, and before a repair what logged rows tell of it.

A logged row would have missed no partner with so much slack as its oldest partner may be older than the log's edge.
That is known at once. What it did miss the repair finds: a pair that is repaired was missed by the row that is logged,
and would have been found with so much slack as its partner was older than the edge. A period needs the slack of as
many of its missed pairs as it lacked.
"""

from typing import Any

import numpy as np

from lakehouse.algorithms.late_join.audit import Periods
from lakehouse.algorithms.late_join.contract import Int64s


def needed_sql(late: str, repaired: str, window_us: int) -> str:
    """Return SQL that tells the time of each repaired pair and the slack that it would have needed, in order of time.

    ``late`` and ``repaired`` are the logged rows and the pairs as DuckDB reads them. Of a pair's two rows the one
    that came later has missed the other; where stream time does not tell which, it is the one that needed more.
    """
    edge = f"coalesce(edge_us, time_us - {window_us})"
    missed = (
        f"SELECT left_row, right_row, left_us, right_us, p.event_us, {edge} - p.{other}_us AS needed_us, l.time_us "
        f"FROM {repaired} p JOIN {late} l ON l.what = 'missed' AND l.side = {side} AND l.row = p.{own}_row "
        f"AND l.event_us = p.{own}_us "
        f"AND p.{other}_us <= l.horizon_us"
        for side, own, other in ((0, "left", "right"), (1, "right", "left"))
    )
    return (
        "SELECT any_value(event_us) AS event_us, arg_max(needed_us, (time_us, needed_us)) AS needed_us "
        f"FROM ({' UNION ALL '.join(missed)}) GROUP BY left_row, right_row, left_us, right_us ORDER BY event_us"
    )


def enough_slack(
    periods: Periods, period_us: int, recall: float, event_us: Int64s, needed_us: Int64s
) -> int | None:
    """Return the least slack in microseconds with which each scored period would have met ``recall``.

    Args:
        periods: all periods, after a repair.
        period_us: how long each is.
        recall: the share of pairs wanted online.
        event_us: the times of the pairs that were missed and repaired, ascending.
        needed_us: the slack that each would have needed.

    None where no period missed it, or where the repaired pairs do not tell. Cost: the missed pairs of each such period.
    """
    enough = 0
    for place in np.flatnonzero(periods.is_scored & (periods.recall < recall)):
        start = int(periods.start_us[place])
        first, after = np.searchsorted(event_us, [start, start + period_us])
        lacking = int(np.ceil(recall * int(periods.pairs[place]))) - int(periods.online[place])
        if 0 < lacking <= after - first:
            own: Any = np.partition(needed_us[first:after], lacking - 1)
            # A pair is found if the slack is more than it needed.
            enough = max(enough, int(own[lacking - 1]) + 1)
    return enough or None


def lateness_sql(late: str, window_us: int) -> str:
    """Return SQL that tells by bucket the slack with which each logged row would have missed nothing, the most first.

    ``late`` are the logged rows as DuckDB reads them. A row is found once for each bucket that has logged it.
    """
    needed = f"coalesce(edge_us, time_us - {window_us}) - event_us + {window_us} + 1"
    return f"SELECT bucket, {needed} AS needed_us FROM {late} ORDER BY needed_us DESC"


def slack_for_all_but(share: float, rows: int, needed_us: Int64s) -> int | None:
    """Return the slack with which at most that share of so many rows would have been logged; None where no more were.

    ``needed_us`` is what each logged row would have needed, descending.
    """
    allowed = int(share * rows)
    return int(needed_us[allowed]) if allowed < len(needed_us) else None

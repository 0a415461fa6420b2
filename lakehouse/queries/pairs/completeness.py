"""Completeness of a join of pairs: beside the recall of its periods the waits of repaired pairs, and enough slack.

A logged row would have missed no partner with so much slack as its oldest partner may be older than the log's edge.
That is known at once. What it did miss the repair finds: a pair that is repaired was missed by the row that is logged,
and would have been found with so much slack as its partner was older than the edge. A period needs the slack of as
many of its missed pairs as it lacked.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lakehouse.algorithms.late_join.audit import Periods
from lakehouse.algorithms.late_join.contract import Int64s
from lakehouse.queries.pairs.query import PairsQuery, held_row_bytes
from lakehouse.queries.runtime.batch_metrics import is_open
from lakehouse.queries.runtime.recall.completeness import Completeness, Facts
from lakehouse.serving.ask.waits import WAITS, waits_in_sql, waits_over_time
from lakehouse.serving.literals import parquet_of
from lakehouse.serving.table_reader import connected


@dataclass(frozen=True)
class PairsCompleteness(Completeness):
    """Completeness of a join; ``cut_since``: from which batch on rows are cut into the buckets that they are in now."""

    query: PairsQuery
    cut_since: int = 1

    def enough_slack(self) -> Facts | None:
        """Return the slack with which all periods would have met their recall, and what it would have held.

        None where all did, or where what they lacked is not repaired.
        """
        query, periods, late = self.query, self.periods, parquet_of(self.layout.missed_rows(self.query.name))
        met, scored = periods.met(query.recall)
        if met == scored or late is None:
            return None
        found = self._columns(needed_sql(late, self._repaired, query.window_us))
        event, needed = found or [np.empty(0, np.int64)] * 2
        slack_us = enough_slack(periods, query.period_us, query.recall, event, needed)
        return None if slack_us is None else self._holding(slack_us)

    @cached_property
    def late_rows(self) -> tuple[Int64s, Int64s]:
        """The bucket of each logged row that no repair has looked at, and the slack that it would have needed.

        With that slack it would have missed no partner; the most first. The bucket is -1 where there were others then.
        """
        late, none = parquet_of(self.layout.missed_rows(self.query.name)), np.empty(0, np.int64)
        if late is None:
            return none, none
        waits = is_open(self.metrics.repaired, self.metrics.finished)
        bucket_now = f"CASE WHEN batch >= {self.cut_since} THEN bucket ELSE -1 END AS bucket"
        logged = f"(SELECT * REPLACE ({bucket_now}) FROM {late} WHERE {waits})"
        found = self._columns(lateness_sql(logged, self.query.window_us))
        bucket, needed = found or (none, none)
        return bucket, needed

    def late_slack(self) -> Facts | None:
        """Return what rows that no repair has looked at tell of slack, and what it would hold; None without such a row.

        ``for_all``: the slack with which none of them would have missed a partner. ``for_recall``: the one with which
        as few of all rows would have been logged as pairs may be missed; None where no more were.
        """
        _, needed = self.late_rows
        if not len(needed):
            return None
        rows = self.metrics.total("rows", self.metrics.repaired)
        usual = slack_for_all_but(1 - self.query.recall, rows, needed)
        return {
            "rows": len(needed),
            "for_recall": None if usual is None else self._holding(usual),
            "for_all": self._holding(int(needed[0])),
        }

    def _holding(self, slack_us: int) -> Facts:
        """Return about how many rows a slack holds at the mean rate of all periods, and in how many bytes of memory."""
        starts, total = self.periods.start_us, self.metrics.total("rows")
        span_us = int(starts[-1]) - int(starts[0]) + self.query.period_us
        rows = min(round(total * (slack_us + self.query.window_us) / span_us), total)
        return {"slack_us": slack_us, "rows": rows, "bytes": rows * held_row_bytes(self.query)}

    def waits_over_time(self, points: int) -> list[Facts]:
        """Return at most so many stretches of event time, each with its pairs and how long the repaired ones waited."""
        if self._pairs is None:
            return []
        with connected(self.layout.tables) as connection:
            return waits_over_time(connection, self._pairs, points)

    @property
    def _repaired(self) -> str:
        """The finished pairs that repairs found, as a table of DuckDB."""
        return f"(SELECT * FROM {self._pairs} WHERE found = 'repair')"

    def _all(self) -> Facts:
        """Return how many pairs were found when, the share found at once, and how long pairs waited."""
        counts = [f"count(*) FILTER (found = '{found}') AS {found}" for found in ("online", "repair")]
        row: tuple[Any, ...] = (0, 0, *[None] * len(WAITS))
        if self._pairs:
            row = self._rows(f"SELECT {', '.join(counts)}, {waits_in_sql()} FROM {self._pairs}")[0]
        online, repaired, *waits = row
        return {
            "pairs_online": online,
            "pairs_repaired": repaired,
            "recall": online / (online + repaired) if online + repaired else None,
            **dict(zip(WAITS, waits, strict=True)),
        }


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

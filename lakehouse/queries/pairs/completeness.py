"""Completeness of a query: recall of every period, its worst misses, and the waits of repaired pairs.

Counted by DuckDB from the pairs of finished batches and repairs and from the log of rows whose repair is still to come.
A period is *open* as long as such a row may still bring it pairs: its recall can only fall. Cost: one pass over the
times of all pairs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lakehouse.algorithms.late_join.audit import Periods, Waiting, periods_of_steps
from lakehouse.algorithms.late_join.contract import Bools, Int64s
from lakehouse.queries.pairs.enough_slack import enough_slack, lateness_sql, needed_sql, slack_for_all_but
from lakehouse.queries.pairs.query import PairsQuery, held_row_bytes
from lakehouse.queries.pairs.reported_misses import ReportedMisses
from lakehouse.queries.runtime.batch_metrics import BatchMetrics, is_finished, is_open
from lakehouse.serving.ask.waits import WAITS, waits_in_sql, waits_over_time
from lakehouse.serving.literals import parquet_of
from lakehouse.serving.table_reader import connected
from lakehouse.storage.layout import Home

Facts = dict[str, Any]
WORST = 5


@dataclass(frozen=True)
class Completeness:
    """Completeness by pairs and log of a query; what is not finished is left out, so all figures are of one moment.

    ``cut_since``: from which batch on rows are cut into the buckets that they are in now.
    """

    layout: Home
    query: PairsQuery
    metrics: BatchMetrics
    cut_since: int = 1

    @cached_property
    def periods(self) -> Periods:
        """Every period that has a pair."""
        query = self.query
        counted = self._columns(
            f"SELECT {_slot(query.step_us)} AS slot, count(*) AS pairs, "
            f"count(*) FILTER (found = 'online') AS online FROM {self._pairs} GROUP BY slot ORDER BY slot"
        )
        slots, pairs, online = counted or [np.empty(0, np.int64)] * 3
        return periods_of_steps(slots * query.step_us, pairs, online, query.period_us, query.step_us)

    @cached_property
    def is_open(self) -> Bools:
        """Periods that may still get pairs from a row that is logged."""
        is_open: Bools = self._waiting.inside(self.periods.start_us, self.query.period_us) > 0
        return is_open

    @property
    def _waiting(self) -> Waiting:
        late = parquet_of(self.layout.missed_rows(self.query.name))
        found = None
        if late:
            logged = is_open(self.metrics.repaired, self.metrics.finished)
            found = self._columns(f"SELECT event_us, horizon_us FROM {late} WHERE {logged}")
        event, horizon = found or [np.empty(0, np.int64)] * 2
        return Waiting.of(event, horizon, self.query.window_us)

    def summary(self) -> Facts:
        """Return periods scored, met and missed, the worst misses, recall of all pairs and their waits."""
        query, periods = self.query, self.periods
        met, scored = periods.met(query.recall)
        missed = periods.is_scored & (periods.recall < query.recall)
        return {
            "periods": len(periods.pairs),
            "scored": scored,
            "met": met,
            "missed": scored - met,
            "missed_since": min(
                ReportedMisses.read(self.layout.reported_misses(query.name)).at, default=None
            ),
            "missed_open": int(np.count_nonzero(missed & self.is_open)),
            "worst": [self._miss(place) for place in self._worst(missed)],
            **self._all(),
        }

    def _worst(self, missed: Bools) -> Iterator[int]:
        """Yield the worst misses of which none overlaps another: a dip is a miss of every period around it."""
        starts, left = self.periods.start_us, missed.copy()
        for _ in range(WORST):
            if not left.any():
                return
            place = int(np.argmin(np.where(left, self.periods.recall, 2.0)))
            yield place
            left &= np.abs(starts - starts[place]) >= self.query.period_us

    def _miss(self, place: int) -> Facts:
        start = int(self.periods.start_us[place])
        return {
            "from_us": start,
            "to_us": start + self.query.period_us,
            "recall": float(self.periods.recall[place]),
            "pairs": int(self.periods.pairs[place]),
            "online": int(self.periods.online[place]),
            "open": bool(self.is_open[place]),
        }

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

    def recall_over_time(self, points: int) -> list[Facts]:
        """Return at most so many stretches of event time, each with the worst scored period that begins in it."""
        places, step = np.flatnonzero(self.periods.is_scored), self.query.step_us
        if not len(places):
            return []
        starts = self.periods.start_us[places]
        first, last = int(starts[0]), int(starts[-1])
        width = -(-((last - first) // step + 1) // points) * step
        stretch = (starts - first) // width
        by_recall = np.lexsort((self.periods.recall[places], stretch))
        numbers, worst, counts = np.unique(stretch[by_recall], return_index=True, return_counts=True)
        at = {
            int(n): (int(places[by_recall[w]]), int(c))
            for n, w, c in zip(numbers, worst, counts, strict=True)
        }
        return [
            {
                "from_us": first + number * width,
                "to_us": first + (number + 1) * width,
                "periods": at[number][1] if number in at else 0,
                "worst": self._miss(at[number][0]) if number in at else None,
            }
            for number in range(int(stretch[-1]) + 1)
        ]

    def waits_over_time(self, points: int) -> list[Facts]:
        """Return at most so many stretches of event time, each with its pairs and how long the repaired ones waited."""
        if self._pairs is None:
            return []
        with connected(self.layout.tables) as connection:
            return waits_over_time(connection, self._pairs, points)

    @cached_property
    def _pairs(self) -> str | None:
        """The finished pairs as a table of DuckDB, None while there is no table."""
        source = parquet_of(self.layout.pairs(self.query.name))
        if source is None:
            return None
        done = is_finished(self.metrics.finished, self.metrics.last_repair)
        return f"(SELECT event_us, found, wait_us FROM {source} WHERE {done})"

    @property
    def _repaired(self) -> str:
        """The finished pairs that repairs found, as a table of DuckDB."""
        done = is_finished(self.metrics.finished, self.metrics.last_repair)
        source = parquet_of(self.layout.pairs(self.query.name))
        return f"(SELECT * FROM {source} WHERE found = 'repair' AND {done})"

    def _columns(self, query: str) -> list[Int64s] | None:
        if self._pairs is None:
            return None
        with connected(self.layout.tables) as connection:
            found = connection.execute(query).fetchnumpy()
        return [np.asarray(column, np.int64) for column in found.values()]

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with connected(self.layout.tables) as connection:
            return connection.execute(query).fetchall()


def _slot(step_us: int) -> str:
    """Return the step that holds an event time, also before 1970."""
    return f"(event_us - ((event_us % {step_us}) + {step_us}) % {step_us}) // {step_us}"

"""Completeness of a query with a recall: recall of every period, and its worst misses.

Counted by DuckDB from the results of finished batches and repairs and from the log of rows whose repair is still to
come. A period is *open* as long as such a row may still bring it results: its recall can only fall. Cost: one pass over
the times of all results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lakehouse.algorithms.late_join.audit import Periods, Waiting, periods_of_steps
from lakehouse.algorithms.late_join.contract import Bools, Int64s
from lakehouse.queries.kind import Kind, kind_of
from lakehouse.queries.runtime.batch_metrics import BatchMetrics, is_finished, is_open
from lakehouse.queries.runtime.recall.reported_misses import ReportedMisses
from lakehouse.serving.literals import parquet_of
from lakehouse.serving.table_reader import connected
from lakehouse.storage.layout import Home

Facts = dict[str, Any]
WORST = 5


@dataclass(frozen=True)
class Completeness:
    """Completeness by results and log of a query; what is not finished is left out: all figures are of one moment."""

    layout: Home
    query: Any
    metrics: BatchMetrics

    @cached_property
    def periods(self) -> Periods:
        """Every period that has a result."""
        query = self.query
        counted = self._columns(counts_by_step(kind_of(query), query.step_us, str(self._pairs)))
        starts, whole, online = counted or [np.empty(0, np.int64)] * 3
        return periods_of_steps(starts, whole, online, query.period_us, query.step_us)

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
        """Return how many results were found when, and the share found at once."""
        sql = f"SELECT {_counts(kind_of(self.query))} FROM {self._pairs}"
        whole, online = self._rows(sql)[0] if self._pairs else (0, 0)
        recall = online / whole if whole else None
        return {"online": online, "repaired": whole - online, "recall": recall}

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

    @cached_property
    def _pairs(self) -> str | None:
        """The finished results as a table of DuckDB, None while there is no table."""
        source = parquet_of(getattr(self.layout, kind_of(self.query).results)(self.query.name))
        if source is None:
            return None
        done = is_finished(self.metrics.finished, self.metrics.last_repair)
        return f"(SELECT * FROM {source} WHERE {done})"

    def _columns(self, query: str) -> list[Int64s] | None:
        if self._pairs is None:
            return None
        with connected(self.layout.tables) as connection:
            found = connection.execute(query).fetchnumpy()
        return [np.asarray(column, np.int64) for column in found.values()]

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with connected(self.layout.tables) as connection:
            return connection.execute(query).fetchall()


def counts_by_step(kind: Kind, step_us: int, rows: str) -> str:
    """Return SQL for results by the start of their step, in order, also before 1970: the whole, and those at once."""
    start = f"{kind.time} - (({kind.time} % {step_us}) + {step_us}) % {step_us}"
    return f"SELECT {start} AS start_us, {_counts(kind)} FROM {rows} GROUP BY 1 ORDER BY 1"


def _counts(kind: Kind) -> str:
    whole, online = (f"ifnull(sum({each}), 0)::BIGINT" for each in (kind.whole, kind.at_once))
    return f"{whole} AS whole, {online} AS online"

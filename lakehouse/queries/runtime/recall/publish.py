"""Published tables of a join with a recall: its results, their completeness by step and period, its row in ``queries``.

Cost: the results that came, and the rows that wait for a repair; one sort of all results where none are shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join.audit import Periods, Waiting, periods_of_steps
from lakehouse.queries.kind import kind_of
from lakehouse.queries.runtime.snapshot import (
    RowsSnapshot,
    greatest,
    open_rows,
    shared_rows,
)
from lakehouse.serving.literals import text
from lakehouse.serving.segments.shared_rows import SharedRows
from sql import statement

if TYPE_CHECKING:
    import duckdb

    from lakehouse.algorithms.late_join.contract import Int64s
    from lakehouse.config.stream import Stream
    from lakehouse.queries.kind import Query
    from lakehouse.queries.runtime.batch_metrics import Facts
    from lakehouse.serving.publish.query_snapshot import QuerySnapshot
    from lakehouse.serving.segments.row_store import RowStore
    from lakehouse.storage.layout import Home

_COUNTED: dict[str, Any] = {
    "time": "start_us",
    "key": ("start_us",),
    "sums": ("online", "repaired"),
    "is_view": False,
}


@dataclass(frozen=True, kw_only=True)
class RecallSnapshot(RowsSnapshot):
    """A join with a recall as it is to be published."""

    @property
    def basis(self) -> str:
        """Basis of its published rows."""
        return f"{self.definition} {self.step_us} {self.period_us}"

    @property
    def step_us(self) -> int:
        """Time from the start of one period to the next."""
        return int(self.settings["step_us"])

    @property
    def period_us(self) -> int:
        """Length of a period."""
        return int(self.settings["period_us"])

    def take(self, store: RowStore) -> None:
        """Take in its results, and how many there are of each step and period."""
        super().take(store)
        step = f"event_us - ((event_us % {self.step_us}) + {self.step_us}) % {self.step_us}"
        online, repaired = (f"count(*) FILTER (found = '{found}')" for found in ("online", "repair"))
        steps = store.connection.execute(
            f"SELECT {step} AS start_us, {online} AS online, {repaired} AS repaired "
            f"FROM {store.arrived(self.rows_table)} GROUP BY 1 ORDER BY 1"
        ).fetchnumpy()
        for table, counts in ((self.steps_table, steps), (self.periods_table, self._periods(steps))):
            store.open(table, statement("serving/steps"), is_shared=store.is_shared(self.rows_table))
            with _registered(store.connection, "counted", counts):
                store.connection.execute(
                    f"INSERT INTO {store.arrived(table)} SELECT start_us, online, repaired FROM counted"
                )

    @property
    def steps_table(self) -> SharedRows:
        """Its results by step."""
        return shared_rows(self, f"steps_{self.name}", ("start_us",), **_COUNTED)

    @property
    def periods_table(self) -> SharedRows:
        """Its results by period, of all periods that hold a step with some."""
        return shared_rows(self, f"periods_{self.name}", ("start_us",), **_COUNTED)

    def write(self, connection: duckdb.DuckDBPyConnection, store: RowStore) -> None:
        """Write where rows still wait for a repair, and the row of the query."""
        waiting = _waiting(connection, self)
        starts = waiting.steps(self.step_us)
        _write_open(connection, "open_steps", self.name, starts, waiting.inside(starts, self.step_us))
        starts = self._starts(starts)
        first, last = self._ends(connection, store)
        starts = starts[(starts >= first) & (starts <= last)]
        _write_open(connection, "open_periods", self.name, starts, waiting.inside(starts, self.period_us))
        self.write_found(connection, store, self.passed_us, f"FROM range({len(waiting)})")

    def by_time(self, store: RowStore) -> tuple[str, str]:
        """Return SELECTs of its results by step, and by period."""
        first, last = self._ends(store.connection, store)
        steps, periods = (
            f"SELECT {text(self.name)} AS query, start_us, online, repaired, 0 AS open FROM ({store.select(table)})"
            for table in (self.steps_table, self.periods_table)
        )
        return steps, f"{periods} WHERE start_us BETWEEN {first} AND {last}"

    def _ends(self, connection: duckdb.DuckDBPyConnection, store: RowStore) -> tuple[int, int]:
        """Return when the first and the last period start: all lie between the first step and the last."""
        waiting = f"SELECT min(start_us), max(start_us) FROM open_steps WHERE query = {text(self.name)}"
        ends = [*store.ends(self.steps_table), *connection.execute(waiting).fetchall()]
        first, last = (
            min((low for low, _ in ends if low is not None), default=0),
            greatest(high for _, high in ends),
        )
        return first, max((0 if last is None else last) + self.step_us - self.period_us, first)

    def _periods(self, steps: Mapping[str, Int64s]) -> Mapping[str, Int64s]:
        """Return how many results of steps each period holds, whichever other steps there are."""
        start_us, online, repaired = (steps[name] for name in ("start_us", "online", "repaired"))
        found = self._slid(start_us, online + repaired, online)
        return {"start_us": found.start_us, "online": found.online, "repaired": found.pairs - found.online}

    def _starts(self, steps: Int64s) -> Int64s:
        """Return the starts of all periods that hold one of some steps."""
        return self._slid(steps, np.ones_like(steps), np.zeros_like(steps)).start_us

    def _slid(self, start_us: Int64s, pairs: Int64s, online: Int64s) -> Periods:
        if len(start_us):
            # Steps without pairs around them, so that no period is left out for being before the first, or last.
            reach = (self.period_us - 1) // self.step_us * self.step_us
            if reach:
                start_us = np.concatenate([[start_us[0] - reach], start_us, [start_us[-1] + reach]])
                pairs, online = (np.pad(each, 1) for each in (pairs, online))
        found = periods_of_steps(start_us, pairs, online, self.period_us, self.step_us)
        held = found.pairs > 0
        return Periods(found.start_us[held], found.pairs[held], found.online[held])


def snapshot_of(
    layout: Home,
    query: Query,
    streams: Mapping[str, Stream],
    published_us: int | None,
    before: Facts | None = None,
) -> QuerySnapshot:
    """Return what is published of a query by its kind, with its completeness if it states a recall.

    ``before``: its row in the version before.
    """
    rows = RowsSnapshot if getattr(query, "recall", None) is None else RecallSnapshot
    of_kind = kind_of(query).part("publish", "snapshot_of", rows.of)
    snapshot: QuerySnapshot = of_kind(layout, query, streams, published_us, before)
    return snapshot


def _waiting(connection: duckdb.DuckDBPyConnection, snapshot: RecallSnapshot) -> Waiting:
    """Return the logged rows that no repair has looked at, as far as their pairs would be published."""
    found = connection.execute(open_rows(snapshot, "event_us, horizon_us")).fetchnumpy()
    waiting = Waiting.of(found["event_us"], found["horizon_us"], snapshot.settings["window_us"])
    since = snapshot.published_from_us
    return waiting if since is None else waiting.since(since)


def _write_open(
    connection: duckdb.DuckDBPyConnection, table: str, query: str, start_us: Int64s, waiting: Int64s
) -> None:
    with _registered(connection, "waiting", {"start_us": start_us, "open": waiting}):
        connection.execute(
            f"INSERT INTO {table} SELECT {text(query)}, start_us, open FROM waiting ORDER BY start_us"
        )


@contextmanager
def _registered(
    connection: duckdb.DuckDBPyConnection, view: str, columns: Mapping[str, Int64s]
) -> Iterator[None]:
    """Let statements read arrays as a view."""
    connection.register(view, pa.table(columns))
    yield
    connection.unregister(view)

"""Published periods of a query with a recall: how many results each has, and where some may still come.

Cost: the results that came, and the rows that wait for a repair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join import audit
from lakehouse.queries.kind import kind_of
from lakehouse.queries.runtime.recall.completeness import counts_by_step
from lakehouse.queries.runtime.snapshot import greatest, open_rows, shared_rows
from lakehouse.serving.literals import text
from lakehouse.serving.publish.query_snapshot import QuerySnapshot
from lakehouse.serving.segments.shared_rows import SharedRows
from sql import statement

if TYPE_CHECKING:
    import duckdb

    from lakehouse.algorithms.late_join.contract import Int64s
    from lakehouse.serving.segments.row_store import RowStore

_COUNTED: dict[str, Any] = {
    "time": "start_us",
    "key": ("start_us",),
    "sums": ("online", "repaired"),
    "is_view": False,
}


@dataclass(frozen=True)
class Periods:
    """Published periods of a query with a recall, sliding by its step; results are of the last ``window_us``."""

    snapshot: QuerySnapshot
    period_us: int
    step_us: int
    window_us: int

    @property
    def basis(self) -> str:
        """Basis of the rows that are published with them."""
        return f"{self.snapshot.definition} {self.step_us} {self.period_us}"

    @property
    def steps_table(self) -> SharedRows:
        """Its results by step."""
        return shared_rows(self.snapshot, f"steps_{self.snapshot.name}", ("start_us",), **_COUNTED)

    @property
    def periods_table(self) -> SharedRows:
        """Its results by period, of all periods that hold a step with some."""
        return shared_rows(self.snapshot, f"periods_{self.snapshot.name}", ("start_us",), **_COUNTED)

    def take(self, store: RowStore, rows: str, *, is_shared: bool) -> None:
        """Take in how many results new rows add to each step and period."""
        found = counts_by_step(kind_of(self.snapshot), self.step_us, rows)
        counts = store.connection.execute(
            f"SELECT start_us, online, whole - online AS repaired FROM ({found}) ORDER BY 1"
        ).fetchnumpy()
        for table, own in ((self.steps_table, counts), (self.periods_table, self._periods(counts))):
            store.open(table, statement("serving/steps"), is_shared=is_shared)
            with _registered(store.connection, "counted", own):
                store.connection.execute(
                    f"INSERT INTO {store.arrived(table)} SELECT start_us, online, repaired FROM counted"
                )

    def write_open(self, connection: duckdb.DuckDBPyConnection, store: RowStore) -> int:
        """Write where rows still wait for a repair; return how many they are."""
        name, waiting = self.snapshot.name, _waiting(connection, self.snapshot, self.window_us)
        starts = waiting.steps(self.step_us)
        _write_open(connection, "open_steps", name, starts, waiting.inside(starts, self.step_us))
        starts = self._starts(starts)
        first, last = self._ends(connection, store)
        starts = starts[(starts >= first) & (starts <= last)]
        _write_open(connection, "open_periods", name, starts, waiting.inside(starts, self.period_us))
        return len(waiting)

    def by_time(self, store: RowStore) -> tuple[str, str]:
        """Return SELECTs of its results by step, and by period."""
        first, last = self._ends(store.connection, store)
        name = text(self.snapshot.name)
        steps, periods = (
            f"SELECT {name} AS query, start_us, online, repaired, 0 AS open FROM ({store.select(table)})"
            for table in (self.steps_table, self.periods_table)
        )
        return steps, f"{periods} WHERE start_us BETWEEN {first} AND {last}"

    def _ends(self, connection: duckdb.DuckDBPyConnection, store: RowStore) -> tuple[int, int]:
        """Return when the first and the last period start: all lie between the first step and the last."""
        name = text(self.snapshot.name)
        waiting = f"SELECT min(start_us), max(start_us) FROM open_steps WHERE query = {name}"
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

    def _slid(self, start_us: Int64s, pairs: Int64s, online: Int64s) -> audit.Periods:
        if len(start_us):
            # Steps without pairs around them, so that no period is left out for being before the first, or last.
            reach = (self.period_us - 1) // self.step_us * self.step_us
            if reach:
                start_us = np.concatenate([[start_us[0] - reach], start_us, [start_us[-1] + reach]])
                pairs, online = (np.pad(each, 1) for each in (pairs, online))
        found = audit.periods_of_steps(start_us, pairs, online, self.period_us, self.step_us)
        held = (found.pairs > 0) | (found.online != 0)
        return audit.Periods(found.start_us[held], found.pairs[held], found.online[held])


def _waiting(connection: duckdb.DuckDBPyConnection, snapshot: QuerySnapshot, window_us: int) -> audit.Waiting:
    """Return the logged rows that no repair has looked at, as far as their pairs would be published."""
    found = connection.execute(open_rows(snapshot, "event_us, horizon_us")).fetchnumpy()
    waiting = audit.Waiting.of(found["event_us"], found["horizon_us"], window_us)
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

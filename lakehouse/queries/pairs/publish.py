"""What is published of a join of pairs: its pairs, how complete it is by step and by period, its row in ``queries``.

Cost: one pass over its pairs, sorted by event time; memory as DuckDB needs, it spills.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.algorithms.late_join.audit import Waiting, periods_of_steps
from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.runtime.batch_metrics import read_batch_metrics
from lakehouse.queries.runtime.snapshot import (
    RowsSnapshot,
    files_of,
    open_rows,
    shared_fields,
    shown_columns,
)
from lakehouse.serving.literals import text

if TYPE_CHECKING:
    import duckdb

    from lakehouse.algorithms.late_join.contract import Int64s

_SIDES = ("left", "right")
_NEWEST = tuple(f"{side}_newest_us" for side in _SIDES)
_METRICS = ("batch", "bucket", "rows", "pairs", "missed", "refused", "unusable", "time_us", *_NEWEST)


@dataclass(frozen=True, kw_only=True)
class PairsSnapshot(RowsSnapshot):
    """A join of pairs as it is to be published."""

    statements = ("pairs",)
    rows_are = "The pairs of"
    window_us: int
    recall: float
    period_us: int
    step_us: int

    def write(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Write everything of the query."""
        waiting = _waiting(connection, self)
        self.write_rows(connection)
        _write_completeness(connection, self, waiting)
        _write_periods(connection, self, waiting)
        same = ("rows_found", "window_us", "recall", "period_us", "step_us")
        own = {column: getattr(self, column) for column in same} | {"final_before_us": self.passed_us}
        counted = {"published": f"FROM {self.table}", "open": f"FROM range({len(waiting)})"}
        self.write_row(connection, own, counted)


def snapshot_of(
    layout: Home, query: PairsQuery, streams: Mapping[str, Stream], published_us: int | None
) -> PairsSnapshot:
    """Return what is published of a query; ``published_us`` back from its newest time, None for all."""
    # Before the files, so that these have all that the metrics speak of.
    metrics = read_batch_metrics(layout, query.name, _METRICS)
    newest = [row[name] for row in metrics.rows for name in _NEWEST]
    # By whole steps: one that is cut would show fewer pairs than it has.
    fields = shared_fields(layout, query, streams, metrics, newest, published_us, query.step_us)
    rows = [f"the {side} row, of {stream}" for side, stream in zip(_SIDES, query.streams, strict=True)]
    return PairsSnapshot(
        **fields,
        **{name: getattr(query, name) for name in ("window_us", "recall", "period_us", "step_us")},
        columns=shown_columns(query, query.outputs, streams, rows),
        rows_found=metrics.total("pairs"),
        row_files=files_of(layout.pairs(query.name)),
    )


def _waiting(connection: duckdb.DuckDBPyConnection, snapshot: PairsSnapshot) -> Waiting:
    """Return the logged rows that no repair has looked at, as far as their pairs would be published."""
    found = connection.execute(open_rows(snapshot, "event_us, horizon_us")).fetchnumpy()
    waiting = Waiting.of(found["event_us"], found["horizon_us"], snapshot.window_us)
    since = snapshot.published_from_us
    return waiting if since is None else waiting.since(since)


def _write_completeness(
    connection: duckdb.DuckDBPyConnection, snapshot: PairsSnapshot, waiting: Waiting
) -> None:
    starts = waiting.steps(snapshot.step_us)
    touched = {"start_us": starts, "open": waiting.inside(starts, snapshot.step_us)}
    with _registered(connection, "waiting", touched):
        connection.execute(
            f"""
            INSERT INTO completeness BY NAME
            WITH found AS (
                SELECT floor_to(event_us, {snapshot.step_us}) AS start_us,
                    count(*) FILTER (found = 'online') AS online, count(*) FILTER (found = 'repair') AS repaired
                FROM {snapshot.table} GROUP BY ALL
            )
            SELECT {text(snapshot.name)} AS query, start_us, make_timestamp(start_us) AS starts_at,
                ifnull(online, 0) AS online, ifnull(repaired, 0) AS repaired, ifnull(open, 0) AS open
            FROM found FULL JOIN waiting USING (start_us)
            ORDER BY start_us
            """
        )


def _write_periods(connection: duckdb.DuckDBPyConnection, snapshot: PairsSnapshot, waiting: Waiting) -> None:
    """Write what each period comes to; sums that slide over millions of steps take SQL a minute and a gigabyte."""
    steps = connection.execute(
        f"SELECT start_us, online, repaired FROM completeness WHERE query = {text(snapshot.name)} ORDER BY start_us"
    ).fetchnumpy()
    pairs = steps["online"] + steps["repaired"]
    found = periods_of_steps(steps["start_us"], pairs, steps["online"], snapshot.period_us, snapshot.step_us)
    columns = {
        "start_us": found.start_us,
        "online": found.online,
        "repaired": found.pairs - found.online,
        "open": waiting.inside(found.start_us, snapshot.period_us),
    }
    with _registered(connection, "audited", columns):
        connection.execute(
            f"INSERT INTO periods BY NAME SELECT {text(snapshot.name)} AS query, * FROM audited"
        )


@contextmanager
def _registered(
    connection: duckdb.DuckDBPyConnection, view: str, columns: Mapping[str, Int64s]
) -> Iterator[None]:
    """Let statements read arrays as a view."""
    connection.register(view, pa.table(columns))
    yield
    connection.unregister(view)

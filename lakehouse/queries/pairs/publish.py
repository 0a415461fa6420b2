"""The facts of a registered join of pairs -> its pairs, its completeness by step and by period, its row in ``queries``.

DuckDB reads the data files of the query's tables as they are; nothing is copied before. Cost: one pass over its pairs,
sorted by event time; memory as DuckDB needs, it spills.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join.audit import Waiting, periods_of_steps
from lakehouse.queries.pairs.facts import PairFacts
from lakehouse.queries.runtime.batch_metrics import is_finished, is_open
from lakehouse.queries.runtime.catalogue import add_query
from lakehouse.queries.runtime.published_rows import write_rows
from lakehouse.serving.file.facts import PAIRS_FILE
from lakehouse.serving.literals import name, parquet, text

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Int64s


def write_pairs(connection: duckdb.DuckDBPyConnection, query: PairFacts) -> None:
    """Write everything of one query; the catalogue tables are there."""
    waiting = _waiting(connection, query)
    _write_pairs(connection, query)
    _write_completeness(connection, query, waiting)
    _write_periods(connection, query, waiting)
    same = ("final_before_us", "pairs", "window_us", "recall", "period_us", "step_us")
    own = {field: getattr(query, field) for field in same}
    counted = {"published": f"FROM {name(f'pairs_{query.name}')}", "open": f"FROM range({len(waiting)})"}
    add_query(connection, query, "pairs", own, counted)


def _write_pairs(connection: duckdb.DuckDBPyConnection, query: PairFacts) -> None:
    write_rows(
        connection,
        name(f"pairs_{query.name}"),
        f"The pairs of {query.name}; see queries.",
        PAIRS_FILE,
        query.columns,
        query.pair_files,
        is_finished(query.batches, query.repairs),
        query.published_from_us,
    )


def _waiting(connection: duckdb.DuckDBPyConnection, query: PairFacts) -> Waiting:
    """Return the logged rows that no repair has looked at, as far as their pairs would be published."""
    found = {name: np.empty(0, np.int64) for name in ("event_us", "horizon_us")}
    if query.late_files:
        found = connection.execute(
            f"SELECT event_us, horizon_us FROM {parquet(query.late_files)} "
            f"WHERE {is_open(query.repaired_through, query.batches)}"
        ).fetchnumpy()
    waiting = Waiting.of(found["event_us"], found["horizon_us"], query.window_us)
    return waiting if query.published_from_us is None else waiting.since(query.published_from_us)


def _write_completeness(connection: duckdb.DuckDBPyConnection, query: PairFacts, waiting: Waiting) -> None:
    starts = waiting.steps(query.step_us)
    touched = {"start_us": starts, "open": waiting.inside(starts, query.step_us)}
    with _registered(connection, "waiting", touched):
        connection.execute(
            f"""
            INSERT INTO completeness BY NAME
            WITH found AS (
                SELECT floor_to(event_us, {query.step_us}) AS start_us,
                    count(*) FILTER (found = 'online') AS online, count(*) FILTER (found = 'repair') AS repaired
                FROM {name(f"pairs_{query.name}")} GROUP BY ALL
            )
            SELECT {text(query.name)} AS query, start_us, make_timestamp(start_us) AS starts_at,
                ifnull(online, 0) AS online, ifnull(repaired, 0) AS repaired, ifnull(open, 0) AS open
            FROM found FULL JOIN waiting USING (start_us)
            ORDER BY start_us
            """
        )


def _write_periods(connection: duckdb.DuckDBPyConnection, query: PairFacts, waiting: Waiting) -> None:
    """Write what each period comes to; sums that slide over millions of steps take SQL a minute and a gigabyte."""
    steps = connection.execute(
        f"SELECT start_us, online, repaired FROM completeness WHERE query = {text(query.name)} ORDER BY start_us"
    ).fetchnumpy()
    pairs = steps["online"] + steps["repaired"]
    found = periods_of_steps(steps["start_us"], pairs, steps["online"], query.period_us, query.step_us)
    columns = {
        "start_us": found.start_us,
        "online": found.online,
        "repaired": found.pairs - found.online,
        "open": waiting.inside(found.start_us, query.period_us),
    }
    with _registered(connection, "audited", columns):
        connection.execute(f"INSERT INTO periods BY NAME SELECT {text(query.name)} AS query, * FROM audited")


@contextmanager
def _registered(
    connection: duckdb.DuckDBPyConnection, view: str, columns: Mapping[str, Int64s]
) -> Iterator[None]:
    """Let statements read arrays as a view."""
    connection.register(view, pa.table(columns))
    yield
    connection.unregister(view)

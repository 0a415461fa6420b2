"""A registered query's facts -> its pairs, its completeness by step and by period, and its row in ``queries``.

DuckDB reads the data files of the query's tables as they are; nothing is copied before. Cost: one pass over its pairs,
sorted by event time; memory as DuckDB needs, it spills.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join.audit import periods_of_steps
from lakehouse.serving.facts import PAIRS_FILE
from lakehouse.serving.literals import literal, name, parquet, text
from lakehouse.serving.query_facts import QueryFacts
from sql import statement


def write_query(connection: duckdb.DuckDBPyConnection, query: QueryFacts) -> None:
    """Write everything of one query; its catalogue tables are there."""
    _write_pairs(connection, query)
    _write_completeness(connection, query)
    _write_periods(connection, query)
    facts = ", ".join(f"{literal(value)} AS {name(column)}" for column, value in _told(query).items())
    connection.execute(
        f"""
        INSERT INTO queries BY NAME
        SELECT {facts}, (SELECT count(*) FROM {name(f"pairs_{query.name}")}) AS published,
            (SELECT count(*) FROM ({_open(query)})) AS open
        """
    )


def _told(query: QueryFacts) -> dict[str, object]:
    same = (
        *("description", "definition", "window_us", "recall", "period_us", "step_us", "batches", "rows"),
        *("pairs", "missed", "refused", "unusable", "time_us", "newest_us", "final_before_us"),
        *("pairs_from_us", "repairs", "repaired_through", "repaired_us", "repaired", "gone"),
    )
    return {"query": query.name, **{field: getattr(query, field) for field in same}}


def _write_pairs(connection: duckdb.DuckDBPyConnection, query: QueryFacts) -> None:
    table = name(f"pairs_{query.name}")
    columns = "".join(f"{name(column.name)} {column.type}, " for column in query.columns)
    connection.execute(
        statement(f"serving/{PAIRS_FILE}").replace("{table}", table).replace("{columns}", columns)
    )
    connection.execute(f"COMMENT ON TABLE {table} IS {text(f'The pairs of {query.name}; see queries.')}")
    for column in query.columns:
        connection.execute(f"COMMENT ON COLUMN {table}.{name(column.name)} IS {text(column.says)}")
    if query.pair_files:
        connection.execute(
            f"""
            INSERT INTO {table} BY NAME
            SELECT *, make_timestamp(event_us) AS event_at FROM {parquet(query.pair_files)}
            WHERE (found = 'online' AND batch <= {query.batches} OR found = 'repair' AND batch <= {query.repairs})
                AND {_published(query, "event_us")}
            ORDER BY event_us
            """
        )


def _open(query: QueryFacts) -> str:
    """Return SQL for the reach of each logged row that no repair has looked at: its missing pairs lie in that time.

    Those of a row are with rows of at most ``horizon_us``, and belong to the newer of both.
    """
    if not query.late_files:
        return "SELECT NULL::BIGINT AS event_us, NULL::BIGINT AS last_us WHERE false"
    last = f"greatest(event_us, least(event_us + {query.window_us}, horizon_us))"
    return (
        f"SELECT event_us, {last} AS last_us FROM {parquet(query.late_files)} WHERE what = 'missed' "
        f"AND batch > {query.repaired_through} AND batch <= {query.batches} AND {_published(query, last)}"
    )


def _write_completeness(connection: duckdb.DuckDBPyConnection, query: QueryFacts) -> None:
    # Rows that open and close are summed over time, so a long window costs a row per step, not per step and logged row.
    step = query.step_us
    connection.execute(
        f"""
        INSERT INTO completeness BY NAME
        WITH reach AS ({_reach(query)}), edges AS (
            SELECT at_us, sum(change) AS change
            FROM (SELECT first_us AS at_us, 1 AS change FROM reach UNION ALL SELECT end_us, -1 FROM reach)
            GROUP BY at_us
        ), spans AS (
            SELECT at_us, sum(change) OVER (ORDER BY at_us) AS open, lead(at_us) OVER (ORDER BY at_us) AS until_us
            FROM edges
        ), waiting AS (
            SELECT unnest(range(at_us, until_us, {step})) AS start_us, open FROM spans WHERE open > 0
        ), found AS (
            SELECT floor_to(event_us, {step}) AS start_us, count(*) FILTER (found = 'online') AS online,
                count(*) FILTER (found = 'repair') AS repaired
            FROM {name(f"pairs_{query.name}")} GROUP BY ALL
        )
        SELECT {text(query.name)} AS query, start_us, make_timestamp(start_us) AS starts_at,
            ifnull(online, 0) AS online, ifnull(repaired, 0) AS repaired, ifnull(open, 0) AS open
        FROM found FULL JOIN waiting USING (start_us)
        ORDER BY start_us
        """
    )


def _write_periods(connection: duckdb.DuckDBPyConnection, query: QueryFacts) -> None:
    """Write what each period comes to; sums that slide over millions of steps take SQL a minute and a gigabyte."""
    steps = connection.execute(
        f"SELECT start_us, online, repaired FROM completeness WHERE query = {text(query.name)} ORDER BY start_us"
    ).fetchnumpy()
    reach = connection.execute(_reach(query)).fetchnumpy()
    pairs = steps["online"] + steps["repaired"]
    found = periods_of_steps(steps["start_us"], pairs, steps["online"], query.period_us, query.step_us)
    begun = np.searchsorted(np.sort(reach["first_us"]), found.start_us + query.period_us)
    ended = np.searchsorted(np.sort(reach["end_us"]), found.start_us, side="right")
    columns = {
        "start_us": found.start_us,
        "online": found.online,
        "repaired": found.pairs - found.online,
        "open": begun - ended,
    }
    connection.register("audited", pa.table(columns))
    connection.execute(f"INSERT INTO periods BY NAME SELECT {text(query.name)} AS query, * FROM audited")
    connection.unregister("audited")


def _reach(query: QueryFacts) -> str:
    """Return SQL for the published steps, from the first to the end of the last, that each open row touches."""
    step, since = query.step_us, literal(query.pairs_from_us)
    return (
        f"SELECT greatest(floor_to(event_us, {step}), {since}) AS first_us, "
        f"floor_to(last_us, {step}) + {step} AS end_us FROM ({_open(query)})"
    )


def _published(query: QueryFacts, time: str) -> str:
    return "true" if query.pairs_from_us is None else f"{time} >= {query.pairs_from_us}"

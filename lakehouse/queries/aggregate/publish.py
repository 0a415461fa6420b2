"""The facts of a registered join-aggregate -> its answers with every revision, its alarms, its row in ``queries``.

DuckDB reads the data files of the query's tables as they are; nothing is copied before. Cost: one sort of its answers;
memory as DuckDB needs, it spills.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb

from lakehouse.queries.aggregate.facts import AggregateFacts
from lakehouse.queries.runtime.batch_metrics import is_finished, is_open
from lakehouse.queries.runtime.catalogue import add_query
from lakehouse.serving.file.comments import comment, comment_columns
from lakehouse.serving.file.facts import ALARMS_FILE, ANSWERS_FILE, ShownColumn
from lakehouse.serving.literals import literal, name, parquet, row, text
from sql import statement


def write_answers(connection: duckdb.DuckDBPyConnection, query: AggregateFacts) -> None:
    """Write everything of one query; the catalogue tables are there."""
    final_before_us = final_before(connection, query)
    _write_revisions(connection, query, final_before_us)
    if query.alarm_files is not None:
        write_alarms(connection, query, final_before_us)
    catalogue_answers(connection, query, final_before_us)


def catalogue_answers(
    connection: duckdb.DuckDBPyConnection, query: AggregateFacts, final_before_us: int | None
) -> None:
    """Write what the catalogue tells of one query; its tables are there."""
    for output in query.outputs:
        values = (query.name, output.name, output.says, output.name in query.counts)
        connection.execute(f"INSERT INTO outputs VALUES {row(values)}")
    same = ("answered", "revised", "late", "every_us", "slack_us", "method")
    own = {field: getattr(query, field) for field in same} | {"final_before_us": final_before_us}
    own["groups"] = [group.name for group in query.groups]
    counted = {"published": f"FROM {name(f'answers_{query.name}')}", "open": f"FROM ({_open(query)})"}
    if query.alarm_files is not None:
        counted["alarms"] = f"FROM {name(f'alarms_{query.name}')} WHERE state = 'raised'"
    add_query(connection, query, "aggregate", own, counted)


def final_before(connection: duckdb.DuckDBPyConnection, query: AggregateFacts) -> int | None:
    """Return the time before which ticks are final: as late as streams allow, and before all that waits for repair."""
    if query.time_us is None:
        return None
    passed = query.time_us - query.latest_us + 1
    waiting = connection.execute(f"SELECT min(event_us) FROM ({_open(query)})").fetchone()
    return passed if waiting is None or waiting[0] is None else min(passed, waiting[0])


def write_values(connection: duckdb.DuckDBPyConnection, queries: Sequence[AggregateFacts]) -> None:
    """Write the view ``answer_values``: the newest answers of all queries, one row for each output."""
    parts = [_values(query, output) for query in queries for output in query.outputs]
    nothing = (
        "SELECT ''::VARCHAR AS query, ''::VARCHAR AS output, []::VARCHAR[] AS key_values, "
        "0::BIGINT AS tick_us, 0.0::DOUBLE AS value, true AS holds WHERE false"
    )
    connection.execute(f"CREATE VIEW answer_values AS {' UNION ALL '.join(parts or [nothing])}")
    says = "Newest answers, one row per output, also where HAVING does not let them through; read by answer_series."
    comment(connection, "VIEW", "answer_values", says)


def _values(query: AggregateFacts, output: ShownColumn) -> str:
    # A list, as a map for each row would take most of the time that reading them takes.
    values = ", ".join(f"CAST({name(group.name)} AS VARCHAR)" for group in query.groups)
    return (
        f"SELECT {text(query.name)} AS query, {text(output.name)} AS output, [{values}]::VARCHAR[] AS key_values, "
        f"tick_us, CAST({name(output.name)} AS DOUBLE) AS value, holds "
        f"FROM {name(f'revisions_{query.name}')} WHERE is_newest"
    )


def revisions(query: AggregateFacts) -> str:
    """Return SQL for all finished answers that are published, each with whether it is the newest; there are files."""
    return f"""
        SELECT make_timestamp(tick_us) AS tick_at, {_names([*query.groups, *query.outputs])}holds, revision,
            revision = max(revision) OVER (PARTITION BY {_names(query.groups)}tick_us) AS is_newest,
            found, batch, tick_us
        FROM {parquet(query.answer_files)}
        WHERE {is_finished(query.batches, query.repairs)} AND {_published(query, "tick_us")}
    """


def changes(query: AggregateFacts) -> str:
    """Return SQL for all finished changes of published alarms, each with whether it is the newest; there are files."""
    since = literal(query.published_from_us)
    ended = f"CASE state WHEN 'raised' THEN {since} ELSE ifnull(cleared_us, raised_us) END"
    return f"""
        SELECT alarm, {_names(query.groups)}change, state, make_timestamp(raised_us) AS raised_at,
            make_timestamp(cleared_us) AS cleared_at, merged_into,
            change = max(change) OVER (PARTITION BY alarm) AS is_newest, found, batch, raised_us, cleared_us
        FROM {parquet(query.alarm_files or ())} WHERE {is_finished(query.batches, query.repairs)}
        QUALIFY {_published(query, f"max_by({ended}, change) OVER (PARTITION BY alarm)")}
    """


def _write_revisions(
    connection: duckdb.DuckDBPyConnection, query: AggregateFacts, final_before_us: int | None
) -> None:
    table, view = name(f"revisions_{query.name}"), name(f"answers_{query.name}")
    columns = [*query.groups, *query.outputs]
    filled = {
        "{revisions}": table,
        "{answers}": view,
        "{columns}": "".join(f"{name(column.name)} {column.type}, " for column in columns),
        "{names}": _names(columns),
        "{final}": _final(final_before_us, "tick_us"),
    }
    _run(connection, ANSWERS_FILE, filled)
    comment(
        connection,
        "TABLE",
        table,
        f"Every answer of {query.name}, also those that were revised; see queries.",
    )
    says = f"What {query.name} answers now: newest answers that hold; see queries."
    comment(connection, "VIEW", view, says)
    comment_columns(connection, (table, view), columns)
    if query.answer_files:
        order = f"tick_us, {_names(query.groups)}revision"
        connection.execute(f"INSERT INTO {table} BY NAME {revisions(query)} ORDER BY {order}")


def write_alarms(
    connection: duckdb.DuckDBPyConnection, query: AggregateFacts, final_before_us: int | None
) -> None:
    """Write the alarms of one query, with every change."""
    table, view = name(f"alarm_changes_{query.name}"), name(f"alarms_{query.name}")
    over = _final(final_before_us, "cleared_us")
    filled = {
        "{changes}": table,
        "{alarms}": view,
        "{columns}": "".join(f"{name(group.name)} {group.type}, " for group in query.groups),
        "{names}": _names(query.groups),
        # What was withdrawn never comes back under its name.
        "{final}": f"(state = 'withdrawn' OR state = 'cleared' AND {over})",
    }
    _run(connection, ALARMS_FILE, filled)
    comment(connection, "TABLE", table, f"Every change of the alarms of {query.name}; see queries.")
    comment(connection, "VIEW", view, f"The alarms of {query.name} as they stand; see queries.")
    comment_columns(connection, (table, view), query.groups)
    if query.alarm_files:
        connection.execute(f"INSERT INTO {table} BY NAME {changes(query)} ORDER BY raised_us, alarm, change")


def _run(connection: duckdb.DuckDBPyConnection, file: str, filled: Mapping[str, str]) -> None:
    sql = statement(f"serving/{file}")
    for place, words in filled.items():
        sql = sql.replace(place, words)
    connection.execute(sql)


def _open(query: AggregateFacts) -> str:
    """Return SQL for the logged rows that no repair has looked at; each counts at the ticks before its horizon."""
    if not query.late_files:
        return "SELECT NULL::BIGINT AS event_us WHERE false"
    return (
        f"SELECT event_us FROM {parquet(query.late_files)} "
        f"WHERE {is_open(query.repaired_through, query.batches)} AND {_published(query, 'horizon_us - 1')}"
    )


def _names(columns: Sequence[ShownColumn]) -> str:
    return "".join(f"{name(column.name)}, " for column in columns)


def _final(before_us: int | None, time: str) -> str:
    return "false" if before_us is None else f"({time} < {before_us})"


def _published(query: AggregateFacts, time: str) -> str:
    return "true" if query.published_from_us is None else f"{time} >= {query.published_from_us}"

"""Changes of alarms that a version has and one before it had not: what events and webhooks tell."""

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb

from lakehouse.serving.literals import name
from lakehouse.web.formats import json_value

# The newest batch and the newest repair of a query that were told; they never come again.
Told = tuple[int, int]
NOTHING: Told = (-1, -1)
_AT_ONCE = 1_000
_TABLE = "alarm_changes_"


def queries_with_alarms(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the published queries that raise alarms."""
    # The file of a version and the segments of it may each have a table of them.
    rows = connection.execute(
        "SELECT DISTINCT table_name FROM information_schema.tables "
        f"WHERE starts_with(table_name, '{_TABLE}') ORDER BY 1"
    ).fetchall()
    return [table.removeprefix(_TABLE) for (table,) in rows]


def newest_told(connection: duckdb.DuckDBPyConnection, query: str) -> Told:
    """Return what has been told once every change of a version is."""
    row = connection.execute(
        "SELECT coalesce(max(batch) FILTER (found = 'online'), -1), "
        f"coalesce(max(batch) FILTER (found = 'repair'), -1) FROM {name(_TABLE + query)}"
    ).fetchone()
    return (row[0], row[1]) if row else NOTHING


def changes_after(
    connection: duckdb.DuckDBPyConnection, query: str, told: Told
) -> Iterator[Mapping[str, Any]]:
    """Yield the changes that came after, each once, in the order in which a query's batches made them."""
    done = connection.execute(
        f"FROM {name(_TABLE + query)} WHERE (found = 'online' AND batch > {told[0]}) "
        f"OR (found = 'repair' AND batch > {told[1]}) ORDER BY batch, raised_us, alarm, change"
    )
    names = [column[0] for column in done.description or []]
    while rows := done.fetchmany(_AT_ONCE):
        for row in rows:
            yield {"query": query, **json_value(dict(zip(names, row, strict=True)))}

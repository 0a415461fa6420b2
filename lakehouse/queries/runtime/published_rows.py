"""A published table of a registered query's own rows: pairs, results, or what it selects.

DuckDB reads the data files of the query's table as they are; nothing is copied before. Cost: one sort of its rows;
memory as DuckDB needs, it spills.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from lakehouse.serving.file.comments import comment, comment_columns
from lakehouse.serving.file.facts import ShownColumn
from lakehouse.serving.literals import literal, name, parquet
from sql import statement


def write_rows(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    says: str,
    statement_file: str,
    columns: Sequence[ShownColumn],
    files: Sequence[Path],
    finished: str,
    since_us: int | None,
) -> None:
    """Create a table and fill it with the rows of these files that are ``finished`` and not before ``since_us``.

    ``table`` is quoted already. ``statement_file`` creates it, with places for its name and the query's own
    ``columns``; ``finished`` is a condition in SQL.
    """
    own = "".join(f"{name(column.name)} {column.type}, " for column in columns)
    create = statement(f"serving/{statement_file}").replace("{table}", table).replace("{columns}", own)
    connection.execute(create)
    comment(connection, "TABLE", table, says)
    comment_columns(connection, (table,), columns)
    since = literal(since_us)
    if files:
        connection.execute(
            f"""
            INSERT INTO {table} BY NAME
            SELECT *, make_timestamp(event_us) AS event_at FROM {parquet(files)}
            WHERE {finished} AND ({since} IS NULL OR event_us >= {since})
            ORDER BY event_us
            """
        )

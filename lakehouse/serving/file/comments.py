"""What tables, views and columns of the published file say of themselves to whoever looks at them."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from lakehouse.serving.file.query_snapshot import ShownColumn
from lakehouse.serving.literals import name, text


def comment(connection: duckdb.DuckDBPyConnection, kind: str, on: str, says: str) -> None:
    """Say something on a TABLE, VIEW or COLUMN, whose name is quoted already."""
    connection.execute(f"COMMENT ON {kind} {on} IS {text(says)}")


def comments_of(says: str, columns: Sequence[ShownColumn]) -> str:
    """Return statements that say what a table, whose name stands as ``{table}``, and its columns of these hold."""
    said = [
        f"COMMENT ON COLUMN {{table}}.{name(column.name)} IS {text(column.says)};\n" for column in columns
    ]
    return "".join([f"COMMENT ON TABLE {{table}} IS {text(says)};\n", *said])


def comment_columns(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[str], columns: Sequence[ShownColumn]
) -> None:
    """Say on these columns of each of the tables, whose names are quoted already, what they hold."""
    for table in tables:
        for column in columns:
            comment(connection, "COLUMN", f"{table}.{name(column.name)}", column.says)

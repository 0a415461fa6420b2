"""Rows of a Delta table as DuckDB's extension reads them, which is neither Spark nor the project's own reader.

For tests of what a table holds: to list the files of a table of three rows, Spark runs a job. What Spark itself reads
of the tables is held by ``tests/storage/tables/test_table_commits.py``.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import duckdb
import pyarrow as pa

from lakehouse.storage.stores.store_path import Location


def table_rows(table: Location, *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of all rows, each a name or an expression of DuckDB's; by default all columns."""
    return _asked(table, *columns).fetchall()


def named_rows(table: Location) -> list[dict[str, Any]]:
    """Return all rows by the names of their columns."""
    found = _asked(table)
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def arrow_rows(table: Location) -> pa.Table:
    """Return all rows as an Arrow table."""
    return _asked(table).to_arrow_table()


def _asked(table: Location, *columns: str) -> duckdb.DuckDBPyRelation:
    shown = ", ".join(f'"{name}"' if name.isidentifier() else name for name in columns) or "*"
    return _connection().sql(f"SELECT {shown} FROM delta_scan($table)", params={"table": str(table)})


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    extension = files("duckdb_extension_delta") / f"extensions/v{duckdb.__version__}/delta.duckdb_extension"
    connection.execute(f"LOAD '{extension}'; SET TimeZone = 'UTC'")
    return connection

"""Connections of DuckDB that read the files of tables, which may be on an object store, and rows by name."""

from collections.abc import Mapping
from typing import Any

import duckdb

from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.tables_place import filesystem_of


def connected(
    tables: Location,
    config: Mapping[str, str | bool | int | float | list[str]] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection in memory that reads files of a home's tables by their address, on a store as Arrow does."""
    connection = duckdb.connect(":memory:", config=dict(config or {}))
    if (filesystem := filesystem_of(tables)) is not None:
        connection.register_filesystem(filesystem)
    return connection


def named_rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query, each by the names of its columns."""
    found = connection.execute(query)
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

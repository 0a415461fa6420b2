"""Connections of DuckDB that read the files of tables, which may be on an object store."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from lakehouse.home.tables_place import uses_store


def connected(
    config: Mapping[str, str | bool | int | float | list[str]] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection in memory that reads files of tables by their address, on a store through Arrow."""
    connection = duckdb.connect(":memory:", config=dict(config or {}))
    if uses_store():
        # Few homes have tables on a store.
        from fsspec.implementations.arrow import ArrowFSWrapper

        from lakehouse.home.store_access import arrow_filesystem

        connection.register_filesystem(ArrowFSWrapper(arrow_filesystem()))
    return connection

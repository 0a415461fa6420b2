"""The statements that a connection has planned: a question costs less if its statement was planned before."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import duckdb

_PLANNED: WeakKeyDictionary[duckdb.DuckDBPyConnection, set[str]] = WeakKeyDictionary()


def plan(connection: duckdb.DuckDBPyConnection, name: str, statement: str) -> None:
    """Have a connection plan a statement, once; ``name``: the name of the prepared statement.

    DuckDB plans a statement anew for each question if a filter compares with one of its parameters. Values that come as
    rows of a list, which are joined, leave the plan as it is.
    """
    planned = _PLANNED.setdefault(connection, set())
    if name not in planned:
        connection.execute(statement)
        planned.add(name)

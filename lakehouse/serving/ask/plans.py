"""The statements that a connection has planned: a question costs less if its statement was planned before."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import duckdb

_PLANNED: WeakKeyDictionary[duckdb.DuckDBPyConnection, dict[str, str]] = WeakKeyDictionary()


def planned(connection: duckdb.DuckDBPyConnection, statement: str) -> str:
    """Return the name of a prepared statement, which a connection plans once.

    DuckDB plans a statement anew for each question if a filter compares with one of its parameters. Values that come as
    rows of a list, which are joined, leave the plan as it is.
    """
    names = _PLANNED.setdefault(connection, {})
    if statement not in names:
        name = f"planned_{len(names)}"
        connection.execute(f"PREPARE {name} AS {statement}")
        names[statement] = name
    return names[statement]

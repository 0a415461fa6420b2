"""The macros of a version, bound once by a process, then copied into each version that it writes.

DuckDB binds a macro when it is created: those of ranges name each other, so that all of them take as long as half
of a small publish. What is copied from another database is not bound again. The copy is kept in memory, so there is
none of another DuckDB or of other statements. Cost: the first version of a process binds them.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.serving.file.macros import macros, tables, views
from lakehouse.serving.file.query_snapshot import write_alone
from lakehouse.serving.file.row_store import PLACE, statements_of
from lakehouse.serving.literals import text
from sql import statement

if TYPE_CHECKING:
    import duckdb


def create_macros(
    connection: duckdb.DuckDBPyConnection, folder: Path | None = None, *, is_shared: bool = False
) -> None:
    """Create all macros of a version in the connection's current database, outside of a transaction.

    ``folder``: where a draft may lie meanwhile; that of temporary files where there is none. ``is_shared``: the version
    has segments.
    """
    into = connection.execute("SELECT current_database()").fetchone()
    assert into is not None
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".draft-macros-", suffix=".duckdb") as file:
        file.write(bound(tuple(macros(is_shared=is_shared))))
        file.flush()
        connection.execute(f"ATTACH {text(file.name)} AS bound (READ_ONLY)")
        connection.execute(f"COPY FROM DATABASE bound TO {into[0]} (SCHEMA)")
        connection.execute("DETACH bound")


@cache
def bound(created: tuple[str, ...]) -> bytes:
    """Return a database that holds these macros and nothing else; they are bound to the tables of an empty version."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="tidemark-macros-") as folder, duckdb.connect() as connection:
        path = Path(folder) / "macros.duckdb"
        # The session's zone would shift text times without an offset while macros are bound.
        connection.execute("SET TimeZone = 'UTC'")
        for one in tables():
            connection.execute(one)
        connection.execute(statements_of(statement("serving/ledger"))[0].replace(PLACE, "ledger"))
        write_alone(connection, ())
        for one in views():
            connection.execute(one)
        connection.execute(f"ATTACH {text(str(path))} AS bound")
        # Created in the first, found in both.
        connection.execute("SET search_path = 'bound,memory'")
        for one in created:
            connection.execute(one)
        connection.execute("CHECKPOINT bound")
        connection.execute("USE memory; DETACH bound")
        return path.read_bytes()

"""Streams whose newest state is withheld: a new version keeps the state that the version before has of them.

Nodes and rows of a withheld stream are shared like those of a stream without changes; what describes it is copied.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import duckdb

from lakehouse.serving.literals import literal, row, text
from lakehouse.serving.segments.previous import Previous

_DESCRIBING = ("streams", "measures", "levels", "ladder", "quarantine")
_LOST = "; another Tidemark published its last state, in a form that cannot be taken over"


@dataclass(frozen=True)
class Withheld:
    """A stream that is not published newly, the reason, and the registered queries that read it."""

    stream: str
    because: str
    queries: tuple[str, ...] = ()


def kept_from(previous: Previous | None, withheld: Sequence[Withheld]) -> list[str]:
    """Return the withheld streams that the version before has."""
    known = previous.streams if previous else {}
    return sorted(one.stream for one in withheld if one.stream in known)


def kept_in(
    connection: duckdb.DuckDBPyConnection, previous: Previous | None, withheld: Sequence[Withheld]
) -> list[str]:
    """Return as ``kept_from``; none if the version before is of another form, so that nothing of it can be copied."""
    kept = kept_from(previous, withheld)
    return [] if kept and _is_other_form(connection) else kept


def without_others(previous: Previous, withheld: Sequence[Withheld]) -> Previous:
    """Return a version before of which only the withheld streams may be shared."""
    ledgers = {f"ledger_{stream}" for stream in kept_from(previous, withheld)}
    rows = {name: found for name, found in previous.rows.items() if name in ledgers}
    return replace(previous, rows=rows, is_shared=False)


def keep(connection: duckdb.DuckDBPyConnection, previous: Previous, streams: Sequence[str]) -> None:
    """Copy what describes streams from the version before, whose nodes are shared."""
    for stream in streams:
        for table in _DESCRIBING:
            connection.execute(
                f"INSERT INTO {table} BY NAME FROM previous.{table} WHERE stream = {text(stream)}"
            )
        number = previous.streams[stream].number
        connection.execute(f"INSERT INTO node_counts FROM previous.node_counts WHERE stream_id = {number}")


def write_withheld(
    connection: duckdb.DuckDBPyConnection,
    withheld: Sequence[Withheld],
    previous: Previous | None,
    kept: Collection[str],
) -> None:
    """Write the table of withheld streams; one that the version before has withheld too keeps its time.

    ``kept``: those whose last published state is in this version.
    """
    since = dict[str, int]()
    if previous is not None and "withheld" in _columns(connection, "previous"):
        since = dict(connection.execute("SELECT stream, since_us FROM previous.withheld").fetchall())
    known = previous.streams if previous else {}
    for one in withheld:
        batch = known[one.stream].batch if one.stream in kept else None
        began_us = since.get(one.stream, time.time_ns() // 1000)
        is_lost = one.stream in known and batch is None
        values = row((one.stream, began_us, f"{one.because}{_LOST if is_lost else ''}", batch))
        connection.execute(
            f"INSERT INTO withheld SELECT *, {literal(list(one.queries))}::VARCHAR[] FROM (VALUES {values})"
        )


def _is_other_form(connection: duckdb.DuckDBPyConnection) -> bool:
    """Tell if the attached version before has other columns than this one."""
    (current,) = connection.execute("SELECT current_database()").fetchall()[0]
    before, now = (_columns(connection, database) for database in ("previous", current))
    return any(before.get(table) != now[table] for table in (*_DESCRIBING, "node_counts"))


def _columns(connection: duckdb.DuckDBPyConnection, database: str) -> dict[str, list[tuple[str, str]]]:
    """Return the columns of each table of a database, with their types."""
    found: dict[str, list[tuple[str, str]]] = {}
    listed = connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        f"WHERE database_name = {text(database)} AND schema_name = 'main' ORDER BY table_name, column_index"
    ).fetchall()
    for table, column, kind in listed:
        found.setdefault(table, []).append((column, kind))
    return found

"""Snapshot of a registered query for a publisher, whatever its kind; each kind writes its own tables.

Snapshots are plain values, so the fingerprint of a version is known before anything is written.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.serving.literals import literal, name, text
from lakehouse.serving.segments.row_store import RowStore
from sql import statement

_SHARED_COLUMNS = (
    *("kind", "description", "statement", "batches", "repairs", "repaired_through", "repaired_us", "rows"),
    *("repaired", "withdrawn", "missed", "refused", "unusable", "gone", "time_us", "newest_us"),
    *("published_from_us", "doubts", "table_id"),
)
_NO_VALUES = (
    "SELECT ''::VARCHAR AS query, ''::VARCHAR AS output, []::VARCHAR[] AS key_values, "
    "0::BIGINT AS tick_us, 0.0::DOUBLE AS value, true AS holds WHERE false"
)
_VALUES_SAY = (
    "Newest answers, one row per output, also where HAVING does not let them through; read by answer_series."
)


@dataclass(frozen=True)
class ShownColumn:
    """A column that a query shows: its type in DuckDB, and a description."""

    name: str
    type: str
    says: str


@dataclass(frozen=True, kw_only=True)
class QuerySnapshot(ABC):
    """One registered query as it is to be published: the part that every kind has.

    Its tables count with batches up to ``batches``, repairs up to ``repairs``, and results from ``published_from_us``
    on (None: all). ``definition``: what its rows depend on; ``statement``: the query as it was written, for people.
    ``latest_us``: how late rows of its streams are expected at most. ``late_files``: the data files of its log.
    ``table_id``: the table of its metrics. ``doubts``: sentences about rows of its streams that it cannot be sure of;
    what it found from ``doubtful_from_us`` on may change with them. ``reach_us``: its widest window. ``sums``,
    ``settings``: columns of ``queries`` that only some kinds have, what was counted and what the query says.
    """

    name: str
    kind: str
    description: str
    definition: str
    statement: str
    batches: int
    rows: int
    missed: int
    refused: int
    unusable: int
    time_us: int | None
    newest_us: int | None
    latest_us: int
    published_from_us: int | None
    repairs: int
    repaired_through: int
    repaired_us: int | None
    repaired: int
    withdrawn: int
    gone: int
    table_id: str | None
    late_files: Sequence[Path]
    reach_us: int
    sums: Mapping[str, int]
    settings: Mapping[str, Any]
    doubts: Sequence[str] = ()
    doubtful_from_us: int | None = None

    @property
    @abstractmethod
    def statements(self) -> tuple[str, ...]:
        """Statements of sql/serving that the kind fills in; a version depends on their text."""

    def sure_before(self, before_us: int | None) -> int | None:
        """Return the time before which results are final, where late rows alone would let them be before another."""
        if before_us is None or self.doubtful_from_us is None:
            return before_us
        return min(before_us, self.doubtful_from_us)

    def identity(self) -> str:
        """Return a text that determines the published content: equal texts publish the same answers."""
        # The tables and files that hold the rows do not matter: a table may be compacted, or made again.
        shown = [f.name for f in fields(self) if not f.name.endswith(("_files", "_table", "table_id"))]
        return repr([(name, getattr(self, name)) for name in shown])

    @property
    def basis(self) -> str:
        """Basis of its published rows: versions share them while it stays the same."""
        return self.definition

    @abstractmethod
    def take(self, store: RowStore) -> None:
        """Add the rows of the query's own tables."""

    @abstractmethod
    def write(self, connection: duckdb.DuckDBPyConnection, store: RowStore) -> None:
        """Write views over its settled rows, and its rows in the tables that all queries share."""

    def by_time(self, store: RowStore) -> tuple[str, str]:
        """Return SELECTs of pairs by step, and by period: query, start_us, online, repaired; empty without pairs."""
        return "", ""

    def values(self) -> Sequence[str]:
        """Return SELECTs that make up the view ``answer_values``; none for a query without answers at ticks."""
        return ()

    def write_row(
        self, connection: duckdb.DuckDBPyConnection, waiting: str, own: Mapping[str, object]
    ) -> None:
        """Write the row of ``queries``; ``waiting``: what waits for a repair, as a table."""
        shared = {column: getattr(self, column) for column in _SHARED_COLUMNS}
        values = {"query": self.name, **shared, **self.sums, **self.settings, **own}
        columns = ", ".join(f"{literal(value)} AS {name(column)}" for column, value in values.items())
        waits = f"(SELECT count(*) FROM {waiting}) AS open"
        connection.execute(f"INSERT INTO queries BY NAME SELECT {columns}, {waits}")


def comment(connection: duckdb.DuckDBPyConnection, kind: str, on: str, says: str) -> None:
    """Comment on a TABLE, VIEW or COLUMN, whose name is already quoted."""
    connection.execute(f"COMMENT ON {kind} {on} IS {text(says)}")


def comments_of(says: str, columns: Sequence[ShownColumn]) -> str:
    """Return statements that comment on a table, whose name stands as ``{table}``, and on its columns of these."""
    said = [
        f"COMMENT ON COLUMN {{table}}.{name(column.name)} IS {text(column.says)};\n" for column in columns
    ]
    return "".join([f"COMMENT ON TABLE {{table}} IS {text(says)};\n", *said])


def comment_columns(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[str], columns: Sequence[ShownColumn]
) -> None:
    """Comment on these columns of each of the tables, whose names are already quoted."""
    for table in tables:
        for column in columns:
            comment(connection, "COLUMN", f"{table}.{name(column.name)}", column.says)


def take_queries(store: RowStore, queries: Sequence[QuerySnapshot]) -> None:
    """Add the rows of all queries."""
    for query in sorted(queries, key=lambda query: query.name):
        query.take(store)


def write_alone(connection: duckdb.DuckDBPyConnection, queries: Sequence[QuerySnapshot]) -> None:
    """Write everything of queries to tables of this connection; nothing is shared."""
    store = RowStore(connection)
    take_queries(store, queries)
    store.settle()
    store.show()
    connection.execute("DETACH arrived")
    write_queries(connection, store, queries)


def write_queries(
    connection: duckdb.DuckDBPyConnection, store: RowStore, queries: Sequence[QuerySnapshot]
) -> None:
    """Write the rest of all queries, and the views over them; their rows are settled, the shared tables exist."""
    ordered = sorted(queries, key=lambda query: query.name)
    for query in ordered:
        query.write(connection, store)
    found = [one for one in (query.by_time(store) for query in ordered) if one[0]]
    views = statement("serving/query_views")
    for place, kind, number in (("{steps}", "open_steps", 0), ("{periods}", "open_periods", 1)):
        waiting = f"SELECT query, start_us, 0 AS online, 0 AS repaired, open FROM {kind}"
        views = views.replace(place, " UNION ALL ".join([*(one[number] for one in found), waiting]))
    connection.execute(views)
    values = [select for query in ordered for select in query.values()]
    connection.execute(f"CREATE VIEW answer_values AS {' UNION ALL '.join(values or [_NO_VALUES])}")
    connection.execute(f"COMMENT ON VIEW answer_values IS {text(_VALUES_SAY)}")

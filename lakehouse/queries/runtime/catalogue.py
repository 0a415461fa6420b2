"""The row of ``queries`` that every registered query has, whatever its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakehouse.serving.file.facts import QueryFacts
from lakehouse.serving.literals import literal, name

if TYPE_CHECKING:
    import duckdb

_SAME = (
    *("description", "definition", "batches", "repairs", "repaired_through", "repaired_us", "rows"),
    *("repaired", "missed", "refused", "unusable", "gone", "time_us", "newest_us", "published_from_us"),
)


def add_query(
    connection: duckdb.DuckDBPyConnection,
    query: QueryFacts,
    kind: str,
    own: Mapping[str, object],
    counted: Mapping[str, str],
) -> None:
    """Add a query's row; ``own`` are what its kind alone tells, ``counted`` columns that count rows of a FROM."""
    told = {"query": query.name, "kind": kind, **{field: getattr(query, field) for field in _SAME}, **own}
    facts = [f"{literal(value)} AS {name(column)}" for column, value in told.items()]
    counts = [f"(SELECT count(*) {source}) AS {name(column)}" for column, source in counted.items()]
    connection.execute(f"INSERT INTO queries BY NAME SELECT {', '.join([*facts, *counts])}")

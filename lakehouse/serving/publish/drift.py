"""Drift between rows that versions share and the stored ones: two versions of the same batches are compared."""

from collections.abc import Iterator

import duckdb

from lakehouse.serving.literals import name, text
from lakehouse.serving.segments.previous import published_rows
from lakehouse.serving.segments.segments import attach
from lakehouse.serving.versions.versions import database_path, hold_version, segments_of
from lakehouse.storage.layout import Home

# Columns of a query that are counted, or added up from version to version.
_KEPT_UP = (
    *("rows", "missed", "refused", "unusable", "repaired", "withdrawn", "gone", "repaired_through"),
    *("time_us", "newest_us", "published", "rows_found", "answered", "revised", "late"),
)


def rows_drift(home: Home, shared: int, anew: int) -> str | None:
    """Return where the first version shows other rows than the second, in tables of the same content; None if nowhere.

    Tables of rows are compared by their counts and sums of hashes, if both are of the same batches and repairs and of
    the same past; for queries also the values that are continued from version to version. Cost: one pass over all
    rows of both. Raises VersionGone if one of them is no longer kept.
    """
    versions = {"shared": shared, "anew": anew}
    with (
        hold_version(home.serving, shared),
        hold_version(home.serving, anew),
        duckdb.connect(":memory:") as connection,
    ):
        for database, version in versions.items():
            path = database_path(home.serving, version)
            attach(connection, home.serving, segments_of(path))
            connection.execute(f"ATTACH {text(str(path))} AS {database} (READ_ONLY)")
        return next(_differences(connection), None)


def _differences(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    before, after = (published_rows(connection, database) for database in ("shared", "anew"))
    for table in sorted(before.keys() & after.keys()):
        same = ("basis", "batches", "repairs", "from_us")
        if any(getattr(before[table], field) != getattr(after[table], field) for field in same):
            continue
        found = []
        for database in ("shared", "anew"):
            asked = f"SELECT count(*), sum(hash(stored)) FROM (FROM {database}.{_shown(table)}) AS stored"
            found.append(connection.execute(asked).fetchone())
        (count, hashes), (expected, right) = (one or (0, None) for one in found)
        if (count, hashes) != (expected, right):
            other = "" if count != expected else ", of which some are others"
            yield f"{table} has {count} rows where its tables hold {expected}{other}"
    if before and after:
        yield from _differences_of_queries(connection)


def _differences_of_queries(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    columns = connection.execute(
        f"""
        SELECT query, column_name FROM (
            UNPIVOT (SELECT query, {", ".join(f"shared.{c} IS DISTINCT FROM anew.{c} AS {c}" for c in _KEPT_UP)}
                FROM shared.queries AS shared JOIN anew.queries AS anew USING (query, table_id, batches, repairs)
                WHERE shared.published_from_us IS NOT DISTINCT FROM anew.published_from_us)
            ON {", ".join(_KEPT_UP)} INTO NAME column_name VALUE differs
        ) WHERE differs ORDER BY ALL
        """
    ).fetchall()
    for query, column in columns:
        yield f"queries.{column} of {query} is not what its metrics come to"


def _shown(table: str) -> str:
    """Return where a version shows the rows of one of its tables of rows."""
    kind, _, of = table.partition("_")
    views = {"steps": "completeness", "periods": "periods"}
    if kind == "ledger":
        return f"ledger WHERE stream = {text(of)}"
    return f"{views[kind]} WHERE query = {text(of)}" if kind in views else name(table)

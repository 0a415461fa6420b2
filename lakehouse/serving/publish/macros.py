"""The statements that make an empty version: its tables, macros and views, from the files of sql/serving.

The macros of the six aggregates differ in a few expressions only: ``range_template.sql`` has their common text, and
``range_<aggregate>.sql`` the parts that are filled in. The numbers in bounds are those of rounding.py.

A process creates tables and macros once, then copies them into each version that it writes. DuckDB binds a macro when
it is created. The macros of ranges refer to each other, so binding all of them takes half as long as a small publish;
macros copied from another database are not bound again. The copies are in memory, so they never come from another
DuckDB or from other statements.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import duckdb

from lakehouse.algorithms.rollup.refinement import MOST_READS
from lakehouse.algorithms.rollup.rounding import NAMED
from lakehouse.serving.literals import text
from lakehouse.serving.publish.query_snapshot import write_alone
from lakehouse.serving.segments.row_store import PLACE, statements_of
from lakehouse.serving.segments.segments import NEWEST, places
from sql import statement

TABLE_FILES = ("tables", "segment", "queries")
_AGGREGATES = ("sum", "count", "avg", "min", "max", "increase")
VIEW_FILES = ("node_views", "views")
# Run last: it reads answers of queries, in a connection that may have nothing else.
LAST_FILE = "answer_series"
MACRO_FILES = (
    *("timestamps", "exact_values", "ratios", "range_nodes", "range_parts"),
    *(f"range_{aggregate}" for aggregate in _AGGREGATES),
    *("range_aggregate", "range_series", "completeness", LAST_FILE),
)
# Filled in with the tables of a version.
ROW_FILES = ("row_tables", "ledger", "steps", "query_views")
_PART = re.compile(r"^-- \[(\w+)\]\n", re.MULTILINE)


def tables() -> Iterator[str]:
    """Yield the statements of all tables, in the order in which they are run."""
    for file in TABLE_FILES:
        yield statement(f"serving/{file}")


def views(segments: Sequence[str] = (), has_own: bool = True) -> Iterator[str]:
    """Yield the statements of the views over these segments, which are attached, and the file's own nodes, if any."""
    filled_in = places(segments, has_own)
    for file in VIEW_FILES:
        yield _filled(statement(f"serving/{file}"), filled_in)


@cache
def macros(*, is_shared: bool = False) -> tuple[str, ...]:
    """Return the statements of all macros, which read the views; ``is_shared``: nodes are in several places."""
    return tuple(macros_of(file, is_shared) for file in MACRO_FILES)


def macros_of(file: str, is_shared: bool = False) -> str:
    """Return the statements of the macros of a file of sql/serving."""
    filled_in = {"{newest}": NEWEST if is_shared else "", "{most_reads}": str(MOST_READS)}
    filled_in |= {f"{{{name}}}": number for name, number in NAMED.items()}
    aggregate = file.removeprefix("range_")
    own = _range_macros(aggregate) if aggregate in _AGGREGATES else statement(f"serving/{file}")
    return _filled(own, filled_in)


def _range_macros(aggregate: str) -> str:
    """Return the statements that create an aggregate's macros; a part may name others."""
    parts = {**_parts("range_template"), **_parts(f"range_{aggregate}"), "aggregate": aggregate}
    filled, before = parts["macros"], ""
    while filled != before:
        before = filled
        filled = _filled(filled, {f"{{{name}}}": words for name, words in parts.items()})
    return filled


def _parts(file: str) -> dict[str, str]:
    """Return the parts of a file by name; the text before the first part is for people."""
    _, *found = _PART.split(statement(f"serving/{file}"))
    return {name: part.strip() for name, part in zip(found[::2], found[1::2], strict=True)}


def _filled(statements: str, filled_in: Mapping[str, str]) -> str:
    for place, words in filled_in.items():
        statements = statements.replace(place, words)
    return statements


def create_tables(connection: duckdb.DuckDBPyConnection, folder: Path | None = None) -> None:
    """Create all tables of a version, with their comments, as ``create_macros`` creates the macros."""
    _copy(connection, unfilled(), folder)


def create_macros(
    connection: duckdb.DuckDBPyConnection, folder: Path | None = None, *, is_shared: bool = False
) -> None:
    """Create all macros of a version in the connection's current database, outside of a transaction.

    ``folder``: for a temporary draft; the folder of temporary files by default. ``is_shared``: the version has
    nodes in several tables.
    """
    _copy(connection, bound(macros(is_shared=is_shared)), folder)


def _copy(connection: duckdb.DuckDBPyConnection, database: bytes, folder: Path | None) -> None:
    into = connection.execute("SELECT current_database()").fetchone()
    assert into is not None
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".draft-copied-", suffix=".duckdb") as file:
        file.write(database)
        file.flush()
        connection.execute(f"ATTACH {text(file.name)} AS copied (READ_ONLY)")
        connection.execute(f"COPY FROM DATABASE copied TO {into[0]} (SCHEMA)")
        connection.execute("DETACH copied")


@cache
def unfilled() -> bytes:
    """Return a database that holds only the tables of a version: copying takes an eighth of creating."""

    def fill(connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute("USE copied")
        for one in tables():
            connection.execute(one)

    return _database(fill)


@cache
def bound(created: tuple[str, ...]) -> bytes:
    """Return a database that holds only these macros, bound to the tables of an empty version.

    Cost: the first version of a process binds them.
    """

    def fill(connection: duckdb.DuckDBPyConnection) -> None:
        for one in tables():
            connection.execute(one)
        connection.execute(statements_of(statement("serving/ledger"))[0].replace(PLACE, "ledger"))
        write_alone(connection, ())
        for one in views():
            connection.execute(one)
        # Macros are created in the first schema and found in both.
        connection.execute("SET search_path = 'copied,memory'")
        for one in created:
            connection.execute(one)

    return _database(fill)


def _database(fill: Callable[[duckdb.DuckDBPyConnection], None]) -> bytes:
    """Return a file with what is created in the attached database ``copied``."""
    with tempfile.TemporaryDirectory(prefix="tidemark-copied-") as folder, duckdb.connect() as connection:
        path = Path(folder) / "copied.duckdb"
        # The session's zone would shift text times without an offset while macros are bound.
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"ATTACH {text(str(path))} AS copied")
        fill(connection)
        connection.execute("CHECKPOINT copied; USE memory; DETACH copied")
        return path.read_bytes()

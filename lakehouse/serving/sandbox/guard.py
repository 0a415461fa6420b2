"""Guard of other people's statements: it lets through those that only read what is published.

DuckDB's own parser is asked what the text is; what cannot be told as one SELECT (PRAGMA, SET, COPY, ATTACH, two
statements) is refused there. Of DuckDB's functions those in ``allowed_functions.txt`` may be called, and the macros of
the version. What is not in that list reads outside, shows or changes settings, waits, or makes huge values inside one
step where neither the memory limit nor an interrupt reaches it; so are macros that take the name of a table. A test
holds the list against every function and view that DuckDB has, so a new DuckDB brings nothing in unseen. The locked
connection and the limits of the process stand behind this list; it is not the only wall.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.serving import literals

LONGEST_STATEMENT = 100_000
# Macros of a version that take the name of a table, and so could be given any.
TAKE_TABLES = frozenset(
    {
        *("avg_of", "count_of", "increase_of", "max_of", "min_of", "sum_of"),
        *(f"{aggregate}_inside" for aggregate in ("avg", "count", "increase", "max", "min", "sum")),
        *("nodes_inside", "parts_inside", "reads_of", "refined_nodes"),
    }
)
# Views of DuckDB's own that say what a version holds; the others show paths, settings and logs.
ALLOWED_VIEWS = frozenset(
    {
        *("duckdb_columns", "duckdb_constraints", "duckdb_indexes", "duckdb_schemas", "duckdb_tables"),
        *("duckdb_types", "duckdb_views", "sqlite_master", "sqlite_schema"),
    }
)
_OF_DUCKDB = ("duckdb_", "pragma_", "sqlite_", "pg_")
_DESCRIBED = "expected one SELECT (or FROM, WITH, VALUES, DESCRIBE, SHOW, SUMMARIZE)"


class StatementRefused(ValueError):
    """A statement that is not let through, with the reason."""


def check_statement(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Let a statement pass, or say why not.

    Raises StatementRefused when it is not one SELECT, is too long, or calls a refused function.
    """
    if len(text) > LONGEST_STATEMENT:
        raise StatementRefused(f"{_DESCRIBED} of at most {LONGEST_STATEMENT} characters, found {len(text)}")
    if "\0" in text:
        raise StatementRefused(f"{_DESCRIBED}, found a NUL character")
    tree = _parsed(connection, text)
    called = {str(part["function_name"]).lower() for part in _parts(tree) if "function_name" in part}
    for name in sorted(called - allowed_functions()):
        if name in TAKE_TABLES or name not in _macros(connection):
            raise StatementRefused(
                f"{name}() is not allowed here: only what is published can be read, in bounded memory"
            )
    for part in _parts(tree):
        if part.get("type") == "BASE_TABLE" and not _is_allowed(part):
            raise StatementRefused(
                f"{part['table_name']} is not allowed here: only what is published can be read"
            )


@cache
def allowed_functions() -> frozenset[str]:
    """Return the functions of DuckDB that a statement may call."""
    path = Path(__file__).with_name("allowed_functions.txt")
    return frozenset(path.read_text(encoding="utf-8").split())


def _macros(connection: duckdb.DuckDBPyConnection) -> set[str]:
    rows = connection.execute("SELECT function_name FROM duckdb_functions() WHERE NOT internal").fetchall()
    return {str(name).lower() for (name,) in rows}


def _is_allowed(relation: dict[str, Any]) -> bool:
    """True if a relation is one of the version, or a view of DuckDB's that says what the version holds."""
    name, schema = str(relation["table_name"]).lower(), str(relation.get("schema_name") or "").lower()
    return schema != "pg_catalog" and (name in ALLOWED_VIEWS or not name.startswith(_OF_DUCKDB))


def _parsed(connection: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any]:
    try:
        row = connection.execute(f"SELECT json_serialize_sql({literals.text(text)})").fetchone()
    except (duckdb.Error, ValueError) as error:
        raise StatementRefused(f"{_DESCRIBED}: {error}") from None
    tree: dict[str, Any] = json.loads(row[0]) if row else {"error": True}
    if tree.get("error"):
        why = str(tree.get("error_message", "not understood"))
        if tree.get("error_type") == "not implemented":
            why = "this is another kind of statement, or several"
        raise StatementRefused(f"{_DESCRIBED}: {why}")
    if len(tree["statements"]) != 1:
        raise StatementRefused(f"{_DESCRIBED}, found {len(tree['statements'])} statements")
    return tree


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a tree, without recursion: a tree can be deep."""
    open_parts = [tree]
    while open_parts:
        part = open_parts.pop()
        if isinstance(part, dict):
            yield part
            open_parts.extend(part.values())
        elif isinstance(part, list):
            open_parts.extend(part)

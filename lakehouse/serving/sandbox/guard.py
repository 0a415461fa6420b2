"""Which statement of other people is let through: one that only reads what is published.

DuckDB's own parser is asked what the text is; what cannot be told as one SELECT (PRAGMA, SET, COPY, ATTACH, two
statements) is refused there. Functions that read outside, or make huge values inside one step where neither
the memory limit nor an interrupt reaches them, are refused by name, and so are macros that take the name of a table.
The locked connection and the limits of the process stand behind this list; it is there for a clear word, not as the
only wall.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb

from lakehouse.serving import literals

LONGEST_STATEMENT = 100_000
# fmt: off
REFUSED = frozenset({
    "array_resize", "arrow_scan", "arrow_scan_dumb", "avg_of", "checkpoint", "count_of", "create_sort_key",
    "duckdb_extensions", "duckdb_log_contexts", "duckdb_logs", "duckdb_secrets", "duckdb_settings",
    "duckdb_temporary_files", "export_database", "force_checkpoint", "from_substrait",
    "get_substrait", "getenv", "getvariable", "glob", "import_database", "increase_of", "json_execute_serialized_sql",
    "list_resize", "load_aws_credentials", "lpad", "max_of", "min_of", "nodes_inside", "pandas_scan",
    "parse_duckdb_log_message", "parts_inside",
    "python_map_function", "query", "query_table", "reads_of", "repeat", "repeat_row", "rpad", "seq_scan",
    "sniff_csv", "sql_auto_complete", "sum_of", "test_all_types", "which_secret", "write_log",
})
# fmt: on
REFUSED_PREFIXES = (
    "read_",
    "parquet_",
    "pragma_",
    "delta_",
    "iceberg_",
    "sqlite_",
    "postgres_",
    "mysql_",
    "http_",
)
_DESCRIBED = "expected one SELECT (or FROM, WITH, VALUES, DESCRIBE, SHOW, SUMMARIZE)"


class StatementRefused(ValueError):
    """A statement that is not let through, with the reason."""


def check_statement(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Let a statement pass, or say why not.

    Raises:
        StatementRefused: when it is not one SELECT, is too long, or calls a refused function.
    """
    if len(text) > LONGEST_STATEMENT:
        raise StatementRefused(f"{_DESCRIBED} of at most {LONGEST_STATEMENT} characters, found {len(text)}")
    for name in _functions(_parsed(connection, text)):
        if name in REFUSED or name.startswith(REFUSED_PREFIXES):
            raise StatementRefused(
                f"{name}() is not allowed here: only what is published can be read, in bounded memory"
            )


def _parsed(connection: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any]:
    try:
        row = connection.execute(f"SELECT json_serialize_sql({literals.text(text)})").fetchone()
    except (duckdb.Error, ValueError) as error:
        raise StatementRefused(f"{_DESCRIBED}: {error}") from None
    tree: dict[str, Any] = json.loads(row[0]) if row else {"error": True}
    if tree.get("error"):
        raise StatementRefused(f"{_DESCRIBED}: {_why(tree)}")
    if len(tree["statements"]) != 1:
        raise StatementRefused(f"{_DESCRIBED}, found {len(tree['statements'])} statements")
    return tree


def _why(tree: dict[str, Any]) -> str:
    if tree.get("error_type") == "not implemented":
        return "this is another kind of statement, or several"
    return str(tree.get("error_message", "not understood"))


def _functions(tree: Any) -> Iterator[str]:
    """Yield the names of all functions called, without recursion: a tree can be deep."""
    open_parts = [tree]
    while open_parts:
        part = open_parts.pop()
        if isinstance(part, dict):
            if isinstance(part.get("function_name"), str):
                yield part["function_name"].lower()
            open_parts.extend(part.values())
        elif isinstance(part, list):
            open_parts.extend(part)

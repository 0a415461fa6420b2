"""Values and names as SQL text.

DuckDB's Python client imports pandas, numpy and pyarrow the first time a parameter is bound: 0.6 s that a reader
should not wait. Its strings know no escapes but the doubled quote, so quoting is safe and as good as binding.
"""

from __future__ import annotations

from collections.abc import Iterable


def text(value: str | None) -> str:
    """Return a string literal, NULL for None.

    Raises:
        ValueError: for a NUL character, where DuckDB's parser would end the statement.
    """
    if value is None:
        return "NULL"
    if "\0" in value:
        raise ValueError("a text with a NUL character cannot be asked for")
    return "'" + value.replace("'", "''") + "'"


def texts(values: Iterable[str | None]) -> str:
    """Return a list literal of strings."""
    return f"[{', '.join(text(value) for value in values)}]::VARCHAR[]"


def name(identifier: str) -> str:
    """Return a quoted identifier."""
    return '"' + identifier.replace('"', '""') + '"'

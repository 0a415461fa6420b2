"""Values and names as SQL text.

DuckDB's Python client imports pandas, numpy and pyarrow the first time a parameter is bound: 0.6 s that a reader
should not wait. Its strings know no escapes but the doubled quote, so quoting is safe and as good as binding.
"""

from collections.abc import Iterable, Mapping

from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import read_log


def text(value: str | None) -> str:
    """Return a string as an expression, NULL for None."""
    if value is None:
        return "NULL"
    # At a NUL character DuckDB's parser would end the statement.
    quoted = ["'" + part.replace("'", "''") + "'" for part in value.split("\0")]
    return quoted[0] if len(quoted) == 1 else f"({' || chr(0) || '.join(quoted)})"


def texts(values: Iterable[str | None]) -> str:
    """Return a list literal of strings."""
    return f"[{', '.join(text(value) for value in values)}]::VARCHAR[]"


def text_map(values: Mapping[str, str | None]) -> str:
    """Return a map literal of strings."""
    return f"MAP({texts(values)}, {texts(values.values())})"


def literal(value: object) -> str:
    """Return a plain value as a literal: numbers, text, and lists and mappings of them; None is NULL.

    Raises TypeError for a value of any other kind.
    """
    if value is None or isinstance(value, str):
        return text(value)
    if isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{text(key)}: {literal(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(inner) for inner in value)}]"
    raise TypeError(f"no literal for {value!r}")


def row(values: Iterable[object]) -> str:
    """Return the values of one row to insert."""
    return f"({', '.join(literal(value) for value in values)})"


def parquet(files: Iterable[Location]) -> str:
    """Return data files as a table of DuckDB; a column that some of them lack is null there."""
    return f"read_parquet([{', '.join(text(str(path)) for path in files)}], union_by_name => true)"


def parquet_of(table: Location) -> str | None:
    """Return a Delta table as DuckDB reads it, None while it has no rows."""
    log = read_log(table)
    return parquet(log.files) if log and log.files else None


def name(identifier: str) -> str:
    """Return a quoted identifier."""
    return '"' + identifier.replace('"', '""') + '"'

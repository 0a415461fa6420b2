"""Rows of a Delta table as Arrow, with all columns of the table: files that the log's statistics rule out stay shut."""

from collections.abc import Collection, Iterator

import pyarrow as pa
from pyarrow import parquet

from lakehouse.storage.damaged import naming
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.table_commits import arrow_schema, fitted
from lakehouse.storage.tables.table_files import source
from lakehouse.storage.tables.table_log import Between, read_parts
from lakehouse.storage.tables.tables_place import place_at

PIECE_ROWS = 200_000


def read_between(
    table: Location, between: Between | None = None, names: Collection[str] | None = None
) -> pa.Table:
    """Return the rows in between, by default all, as this process reads them, with all columns of the table.

    ``names``: of these columns alone. Cost: the files whose statistics let them have such a row. Raises LookupError
    where the table lacks one of these columns.
    """
    return pa.concat_tables(parts_between(table, between, names))


def parts_between(
    table: Location, between: Between | None = None, names: Collection[str] | None = None
) -> Iterator[pa.Table]:
    """Yield the same rows, those of one file at a time; a table without rows comes first."""
    columns = named_columns(table, names)
    yield columns.empty_table()
    for part in read_parts(table, columns.names, between):
        yield fitted(part, columns)


def pieces_of(address: Location | str, columns: pa.Schema, rows: int | None = None) -> Iterator[pa.Table]:
    """Yield some columns of a file's rows, ``PIECE_ROWS`` of them at a time; columns that the file lacks are null.

    Memory: a row group of the file, and a piece.
    """
    path = place_at(address) if isinstance(address, str) else address
    with naming(path), parquet.ParquetFile(source(path)) as file:
        for batch in file.iter_batches(rows or PIECE_ROWS, columns=columns.names):
            yield fitted(pa.Table.from_batches([batch]), columns)


def named_columns(table: Location, names: Collection[str] | None = None) -> pa.Schema:
    """Return the table's columns, or those of them that are named.

    Raises LookupError where the table lacks one of these columns.
    """
    with opened(table) as known:
        columns = arrow_schema(known)
    if names is None:
        return columns
    if lacking := sorted(set(names) - {*columns.names}):
        raise LookupError(f"{table} has no {', '.join(lacking)} yet: it comes with the next ingest batch")
    return pa.schema([field for field in columns if field.name in names])

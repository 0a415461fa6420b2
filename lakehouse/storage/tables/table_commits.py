"""Commits to Delta tables: written Parquet files are added to a table, or removed from it, in one step.

    create_table    a table, from columns and properties
    commit          files added and removed; under a writer's number, so that it is made once
    append          rows that this process holds: one Parquet file and one commit

A writer puts Parquet files into a folder of its own below the table and commits them. Nobody sees them before the
commit; a writer that dies before it leaves files that a vacuum deletes. Creating a log entry takes the number of the
next version, and only one writer can create it. A commit costs some ten milliseconds, however many rows it adds.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakehouse.storage.control.seal import fences, require_leases
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.open_tables import open_table as open_table
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.table_files import sink, source
from lakehouse.storage.tables.tables_place import options_of

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

# How often a commit is tried when others come first; eight writers at once on a busy machine needed more than
# the 15 of deltalake.
MOST_TRIES = 100
# Delta's own number where a table does not name the columns that its statistics are about.
_FIRST_COLUMNS = 32
GROUP_ROWS = 500_000
# Delta cuts longer texts in its statistics; here they have no statistics.
_TEXT = 32
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class DataFile:
    """A Parquet file below a table, before it is committed; ``partition``: its values, as Delta writes them."""

    path: Location
    rows: int
    size: int
    statistics: Mapping[str, Any]
    partition: Mapping[str, str | None] = field(default_factory=dict)


def create_table(
    table: Location,
    schema: str,
    comment: str = "",
    properties: Mapping[str, str] | None = None,
    partition: Sequence[str] = (),
) -> None:
    """Create a table if there is none; ``schema`` as Spark and Delta write it in JSON."""
    from deltalake import DeltaTable, Schema

    DeltaTable.create(
        str(table),
        Schema.from_json(schema),
        mode="ignore",
        partition_by=list(partition),
        description=comment or None,
        configuration=dict(properties or {}),
        # These properties are Tidemark's own, beside those of Delta.
        raise_if_key_not_exists=False,
        storage_options=options_of(table),
    )


def known_as(writer: str) -> str:
    """Return the name under which a table's log knows a writer: a job and stream."""
    return f"tidemark-{writer}"


def committed(known: DeltaTable, writer: str) -> int:
    """Return the highest number under which a writer has committed, -1 for none."""
    number = known.transaction_version(writer)
    return -1 if number is None else number


def commit(
    known: DeltaTable,
    table: Location,
    added: Sequence[DataFile],
    removed: Iterable[str] = (),
    writer: tuple[str, int] | None = None,
    is_change: bool = True,
) -> None:
    """Add files to a table and remove others, named as the log names them, in one version.

    ``writer``: the writer's name and number of the commit. ``is_change`` is false if rows only move to other files.
    Raises deltalake.exceptions.CommitFailedError if another writer has removed one of the files; LeaseLost if another
    process has taken the lease meanwhile.
    """
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import (
        AddAction,
        CommitProperties,
        PostCommitHookProperties,
        RemoveAction,
        Transaction,
    )

    crash_point("table.files-written")
    now = time.time_ns() // 1_000_000
    adds = [
        AddAction(
            str(each.path.relative_to(table)),
            each.size,
            each.partition,
            now,
            is_change,
            json.dumps(each.statistics),
        )
        for each in added
    ]
    removes = [RemoveAction(path, is_change, now) for path in removed]
    transactions = [Transaction(*writer)] if writer else None
    try:
        known.create_write_transaction(
            [*removes, *adds],
            "append",
            known.schema(),
            known.metadata().partition_columns,
            # Delta's own writer lets a blind append commit at the same time.
            commit_properties=CommitProperties(
                {"isBlindAppend": not removes, **fences()}, MOST_TRIES, transactions
            ),
            # It would read each entry of the log at every commit; maintenance does it instead.
            post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
        )
    except CommitFailedError:
        # A successor has sealed the table: report that rather than the conflict.
        require_leases()
        raise


def append(table: Location, rows: Sequence[Mapping[str, Any]], writer: tuple[str, int] | None = None) -> None:
    """Append rows by the names of the table's columns, unless the writer has committed under this number."""
    import pyarrow as pa

    with opened(table) as known:
        if writer is None or committed(known, writer[0]) < writer[1]:
            new = pa.Table.from_pylist(list(map(dict, rows)), arrow_schema(known))
            append_arrow(known, table, new, writer)


def append_arrow(
    known: DeltaTable, table: Location, rows: pa.Table, writer: tuple[str, int] | None = None
) -> list[DataFile]:
    """Append rows that have the table's columns and types; return the files that hold them, none without rows."""
    added = write_arrow(known, table, rows)
    commit(known, table, added, writer=writer)
    return added


def write_arrow(known: DeltaTable, table: Location, rows: pa.Table) -> list[DataFile]:
    """Write rows that have the table's columns and types to a file, to be committed; none without rows.

    For what a process has in memory; rows of a stream are written by tasks (``engine/parts.py``).
    """
    if not rows.num_rows:
        return []
    path = table / uuid.uuid4().hex / "part-00000.parquet"
    path.parent.mkdir(parents=True)
    write_share([rows], path, arrow_schema(known))
    return [data_file(table, path, statistics_columns(known))]


def write_share(
    parts: Iterable[pa.Table], path: Location, columns: pa.Schema, group_rows: int = GROUP_ROWS
) -> None:
    """Write parts to one file, as many as have enough rows to a row group."""
    import pyarrow as pa
    from pyarrow import parquet

    held, waiting = list[pa.Table](), 0
    with sink(path) as file, parquet.ParquetWriter(file, columns, **encodings(columns)) as writer:
        for part in parts:
            held.append(fitted(part, columns))
            waiting += part.num_rows
            if waiting >= group_rows:
                writer.write_table(pa.concat_tables(held), group_rows)
                held, waiting = [], 0
        if waiting:
            writer.write_table(pa.concat_tables(held))


def encodings(columns: pa.Schema) -> dict[str, Any]:
    """Return how Parquet writes columns: whole numbers, also in lists, by their differences, as times mostly grow.

    With dictionaries, its default, times take several times the bytes, and as much longer to write and to read.
    """
    import pyarrow as pa

    whole = [each.name for each in columns if pa.types.is_integer(each.type)]
    others = [each.name for each in columns if each.name not in whole]
    lists = [each for each in columns if pa.types.is_list(each.type)]
    whole += [f"{each.name}.list.element" for each in lists if pa.types.is_integer(each.type.value_type)]
    return {"use_dictionary": others, "column_encoding": dict.fromkeys(whole, "DELTA_BINARY_PACKED")}


def arrow_schema(known: DeltaTable) -> pa.Schema:
    """Return a table's columns as an Arrow schema."""
    import pyarrow as pa

    return pa.schema(known.schema().to_arrow())


def fitted(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return rows with these columns and types; missing columns are null."""
    import pyarrow as pa

    for column in columns:
        if column.name not in rows.column_names:
            rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
    return rows.select(columns.names).cast(columns)


def as_json(columns: pa.Schema) -> str:
    """Return columns, with their comments, as Spark and Delta write them in JSON."""
    from deltalake import Schema

    return str(Schema.from_arrow(columns).to_json())


def add_columns(table: Location, schema: str) -> None:
    """Add the columns of a schema, as JSON, that a table lacks; existing rows have null in them."""
    from deltalake import Field, Schema

    with opened(table) as known:
        there = {column.name for column in known.schema().fields}
        lacking = [
            Field(column.name, column.type, nullable=True, metadata=column.metadata)
            for column in Schema.from_json(schema).fields
            if column.name not in there
        ]
        if lacking:
            known.alter.add_columns(lacking)


def set_properties(table: Location, properties: Mapping[str, str]) -> None:
    """Set properties of a table, in one version; other properties stay."""
    from deltalake.transaction import CommitProperties

    told = CommitProperties(dict(fences()))
    with opened(table) as known:
        # Delta does not know these properties.
        known.alter.set_table_properties(dict(properties), raise_if_not_exists=False, commit_properties=told)


def statistics_columns(known: DeltaTable) -> set[str]:
    """Return the columns that a table's statistics are about."""
    named = known.metadata().configuration.get("delta.dataSkippingStatsColumns")
    if named:
        return {name.strip().strip("`") for name in named.split(",")}
    return {column.name for column in known.schema().fields[:_FIRST_COLUMNS]}


def data_file(table: Location, path: Location, columns: Collection[str]) -> DataFile:
    """Return what a commit says of a file, with statistics of some columns. Cost: one read of its footer."""
    from pyarrow import parquet

    footer = parquet.read_metadata(source(path))
    folders = path.relative_to(table).parts[1:-1]
    return DataFile(
        path,
        footer.num_rows,
        path.stat().st_size,
        _statistics(footer, columns),
        dict(_partition_value(folder) for folder in folders),
    )


def _partition_value(folder: str) -> tuple[str, str | None]:
    name, _, value = folder.partition("=")
    return unquote(name), None if value == _NO_PARTITION else unquote(value)


def _statistics(footer: Any, columns: Collection[str]) -> dict[str, Any]:
    """Return the count of rows, and known extremes and nulls of some columns, as Delta writes them."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        if name in columns:
            parts = [
                footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)
            ]
            if all(part is not None and part.has_null_count for part in parts):
                nulls[name] = sum(part.null_count for part in parts)
            ends = _ends(parts)
            if ends:
                low[name], high[name] = ends
    return {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _ends(parts: Sequence[Any]) -> tuple[Any, Any] | None:
    """Return the extremes of a column, None if there are none or if a reader could misinterpret them."""
    known = [part for part in parts if part is not None and part.has_min_max]
    some = [part for part in parts if part is None or part.num_values]
    if not known or len(known) < len(some):
        return None
    ends = min(part.min for part in known), max(part.max for part in known)
    return ends if all(_is_plain(end) for end in ends) else None


def _is_plain(end: object) -> bool:
    # Doubles have NaN, which has no order; times and decimals have several text forms; Delta has none of booleans.
    return type(end) is int or (isinstance(end, str) and len(end) <= _TEXT)

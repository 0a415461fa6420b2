"""Delta tables by path: create, read, append exactly once, and a lease that keeps writers one at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.declare.columns import sql_type
from lakehouse.declare.stream import COUNTER_PARTS, Stream
from lakehouse.home.lease import MERGE_S as MERGE_S
from lakehouse.home.lease import LeaseHeld as LeaseHeld
from lakehouse.home.lease import files_of
from lakehouse.home.lease import lease as lease
from lakehouse.home.open_tables import opened
from lakehouse.home.table_commits import (
    DataFile,
    Parts,
    add_columns,
    append,
    arrow_schema,
    as_json,
    commit,
    committed,
    create_table,
    data_files,
    fitted,
    known_as,
    new_folder,
    open_table,
    write_arrow,
    write_parts,
)
from lakehouse.home.table_files import source
from lakehouse.home.table_log import files_between
from lakehouse.home.table_maintenance import kept
from lakehouse.home.table_replacement import replace_table
from lakehouse.home.tables_place import is_on_store
from lakehouse.spark.ddl import schema_of
from sql import statement

if TYPE_CHECKING:
    from deltalake import DeltaTable

ROLLUP_STATISTICS = ("level", "grouping", "start_us", "batch")
_STATS = {"delta.dataSkippingStatsColumns": ",".join(ROLLUP_STATISTICS)}


def exists(table: Path) -> bool:
    """True if a Delta table has been created here."""
    return any((table / "_delta_log").glob("*.json"))


def read(spark: SparkSession, table: Path, version: int | None = None) -> DataFrame:
    """Return a version of the table, by default whatever is current when it is read."""
    reader = spark.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(str(table))


def append_once(rows: DataFrame, table: Path, writer: str, version: int) -> list[Path] | None:
    """Append rows unless this writer already appended this version or a later one.

    ``writer`` names a job and stream; versions are batch numbers, which only grow. A replay computes and appends
    nothing. Columns that the table lacks are added to it. Returns the files written, None for a replay.
    """
    known = open_table(table)
    if committed(known, known_as(writer)) >= version:
        return None
    if set(rows.columns) - {column.name for column in known.schema().fields}:
        add_columns(table, rows.schema.json())
        known = open_table(table)
    added = write_files(rows, known, table)
    commit(known, table, added, writer=(known_as(writer), version))
    return [each.path for each in added]


def append_parts_once(rows: Parts, table: Path, writer: str, version: int) -> list[Path] | None:
    """Append rows that this process has, or makes part by part, as ``append_once`` does, without Spark."""
    with opened(table) as known:
        if committed(known, known_as(writer)) >= version:
            return None
        lacking = set(rows.schema.names) - {column.name for column in known.schema().fields}
        if lacking:
            more = pa.schema([rows.schema.field(name) for name in sorted(lacking)])
            add_columns(table, as_json(more))
            known = open_table(table)
        added = write_parts(known, table, rows)
        commit(known, table, added, writer=(known_as(writer), version))
        return [each.path for each in added]


def write_files(rows: DataFrame, known: DeltaTable, table: Path) -> list[DataFile]:
    """Write rows, with the table's types, as Parquet files of a folder of their own below it, to be committed."""
    schema = StructType.fromJson(json.loads(known.schema().to_json()))
    there = set(rows.columns)
    whole = rows.select(
        *(F.col(_quoted(f.name)).cast(f.dataType).alias(f.name) for f in schema if f.name in there)
    )
    folder = new_folder(table)
    _write_parquet(whole, folder, known.metadata().partition_columns)
    return data_files(known, table, folder)


def _write_parquet(rows: DataFrame, folder: Path, partition: Sequence[str] = ()) -> None:
    writer = rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    writer.partitionBy(*partition).parquet(str(folder))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def is_appended(table: Path, writer: str, version: int) -> bool:
    """True if a writer has appended this version or a later one."""
    with opened(table) as known:
        return committed(known, known_as(writer)) >= version


def append_row(row: Mapping[str, object], table: Path, writer: str, version: int) -> None:
    """Append one row, by the names of the table's columns, as ``append_once`` does."""
    append_rows([row], table, writer, version)


def append_rows(rows: Sequence[Mapping[str, object]], table: Path, writer: str, version: int) -> None:
    """Append a handful of rows, by the names of the table's columns, as ``append_row`` does."""
    append(table, rows, (known_as(writer), version))


def remove(spark: SparkSession, table: Path, condition: str) -> None:
    """Delete the rows of which a condition holds; a merge of the table's files is waited for.

    Cost: with the files that hold such a row, which are written anew without them.

    Raises:
        LeaseHeld: when the merge takes longer than ``MERGE_S``.
    """
    with lease(files_of(table), MERGE_S):
        there = read(spark, table).withColumn("_file", F.col("_metadata.file_path"))
        files = [row[0] for row in there.where(condition).select("_file").distinct().collect()]
        if files:
            others = there.where(F.col("_file").isin(files)).where(f"NOT coalesce(({condition}), false)")
            known = open_table(table)
            added = write_files(others.drop("_file"), known, table)
            commit(known, table, added, (_relative(table, file) for file in files))


def remove_here(table: Path, is_gone: Callable[[pa.Table], pa.Array]) -> None:
    """Delete the rows of which ``is_gone`` is true, as this process reads them, file by file; a merge is waited for.

    Of a table without partitions. Cost: all its files, of which those with such a row are written anew without them.

    Raises:
        LeaseHeld: when the merge takes longer than ``MERGE_S``.
    """
    with lease(files_of(table), MERGE_S):
        known, added, removed = open_table(table), list[DataFile](), list[str]()
        columns = arrow_schema(known)
        for path in files_between(table, None):
            rows = fitted(parquet.read_table(source(path)), columns)
            kept = rows.filter(pc.invert(pc.fill_null(is_gone(rows), False)))
            if len(kept) < len(rows):
                removed.append(str(path.relative_to(table)))
                added += write_arrow(known, table, kept) if len(kept) else []
        if removed:
            commit(known, table, added, removed)


def _relative(table: Path, address: str) -> str:
    """Return the path below a table of a file, from its address as Spark has it."""
    path = unquote(address) if is_on_store(table) else unquote(urlsplit(address).path)
    return str(type(table)(path).relative_to(table.absolute()))


def side_by_side(*steps: Callable[[], object]) -> None:
    """Run steps at the same time: each is mostly Delta waiting for its own log."""
    with ThreadPoolExecutor(len(steps)) as pool:
        for done in [pool.submit(step) for step in steps]:
            done.result()


def create_raw(table: Path, stream: Stream) -> None:
    """Create a stream's raw table when there is none."""
    columns = "".join(f"`{name}` {sql_type(column)},\n    " for name, column in stream.all_columns.items())
    create(table, "raw", columns=columns)


def create_quarantine(table: Path) -> None:
    """Create a stream's quarantine when there is none."""
    create(table, "quarantine")


def create_ledger(table: Path) -> None:
    """Create a stream's ledger when there is none."""
    create(table, "ledger")


def declared_columns(name: str) -> pa.Schema:
    """Return the columns of a table of ``sql/tables`` as Arrow has them."""
    return _columns_of(statement(f"tables/{name}"))


def create_corrections(table: Path) -> None:
    """Create a stream's table of corrections when there is none."""
    create(table, "corrections")


def create_rollup(table: Path, stream: Stream) -> None:
    """Create a stream's rollup table when there is none."""
    if not exists(table):
        _create(table, _rollup_statement(stream))


def _rollup_statement(stream: Stream) -> str:
    keys = "".join(f"`{key}` {sql_type(stream.all_columns[key])},\n    " for key in stream.grouping_keys)
    measures = "".join(
        f",\n    {column}" for name in stream.measures for column in measure_columns(stream, name)
    )
    parts = {"keys": keys, "measures": measures, "definition": stream.definition()}
    return _filled(statement("tables/rollup"), parts)


def rollup_schema(stream: Stream) -> pa.Schema:
    """Return the columns of a stream's rollup table, with their types and comments."""
    return _columns_of(_rollup_statement(stream))


def _columns_of(text: str) -> pa.Schema:
    return schema_of(text[text.index("(\n") + 1 : text.index("\n) USING DELTA")])


def replace_rollup(
    table: Path, stream: Stream, added: Sequence[DataFile], properties: Mapping[str, str]
) -> None:
    """Make the stream's rollup table of these files and today's declaration, in one commit.

    What was there stays for readers of earlier versions; which writes were already made is remembered.

    Raises:
        LeaseLost: when another process has taken the lease meanwhile.
    """
    told = {**_STATS, "tidemark.definition": stream.definition(), **kept(), **properties}
    replace_table(table, as_json(rollup_schema(stream)), told, added)


def measure_columns(stream: Stream, measure: str) -> list[str]:
    """Return the columns of one measure in a rollup table, with their types."""
    value = sql_type(stream.all_columns[measure])
    exact = {"sum": f"decimal(38,{stream.all_columns[measure].scale})"}
    types = {
        "n": "bigint",
        **({"sum": "double", "carry": "double"} if measure in stream.rounded else exact),
        "min": value,
        "max": value,
        "first_us": "bigint",
        "last_us": "bigint",
    }
    if measure in stream.counters:
        types |= dict.fromkeys(COUNTER_PARTS, "double")
    return [f"{measure}__{part} {kind}" for part, kind in types.items()]


def create(table: Path, name: str, **parts: str) -> None:
    """Create a table of ``sql/tables`` when there is none; ``parts`` fill the gaps in its statement."""
    if not exists(table):
        _create(table, _filled(statement(f"tables/{name}"), parts))


def _create(table: Path, text: str) -> None:
    after = text[text.index("\n) USING DELTA") :]
    comment = re.search(r"^COMMENT '(.*)'$", after, re.MULTILINE)
    properties = re.search(r"^TBLPROPERTIES \((.*)\)$", after, re.MULTILINE)
    partition = re.search(r"^PARTITIONED BY \((.*)\)$", after, re.MULTILINE)
    told = dict(re.findall(r"'([^']*)' = '([^']*)'", properties[1])) if properties else {}
    create_table(
        table,
        as_json(_columns_of(text)),
        comment[1].replace("''", "'") if comment else "",
        # From the first commit on: Delta's own checkpoints come too seldom for logs that are opened with every batch.
        {**kept(), **told},
        [name.strip() for name in partition[1].split(",")] if partition else [],
    )


def _filled(text: str, parts: Mapping[str, str]) -> str:
    for key, value in parts.items():
        text = text.replace("{" + key + "}", value)
    return text

"""Delta tables by path: create, read, append exactly once, and a lease that keeps writers one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakehouse.declare.columns import sql_type
from lakehouse.declare.stream import COUNTER_PARTS, Stream
from lakehouse.home.lease import LeaseHeld as LeaseHeld
from lakehouse.home.lease import files_of
from lakehouse.home.lease import lease as lease
from lakehouse.home.table_log import files_added, newest_version
from sql import statement

_STATS = {"delta.dataSkippingStatsColumns": "level,grouping,start_us,batch"}
# How long old versions can be read where nobody says; a table is told what counts when it is maintained.
HISTORY_US = 7 * 24 * 3600 * 1_000_000
# A merge of files takes a minute for every few ten millions of rows that came in since the last.
MERGE_S = 1800.0


def kept(history_us: int = HISTORY_US) -> dict[str, str]:
    """Return the properties of a table by which old versions can be read for so long, and its log remembers them."""
    interval = f"interval {history_us // 1_000_000} seconds"
    return {
        "delta.logRetentionDuration": interval,
        "delta.deletedFileRetentionDuration": interval,
        "delta.checkpointInterval": "10",
    }


def exists(table: Path) -> bool:
    """Whether a Delta table has been created here."""
    return any((table / "_delta_log").glob("*.json"))


def read(spark: SparkSession, table: Path, version: int | None = None) -> DataFrame:
    """Return a version of the table, by default whatever is current when it is read."""
    reader = spark.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(str(table))


def append_once(rows: DataFrame, table: Path, writer: str, version: int) -> list[Path] | None:
    """Append rows unless this writer already appended this version or a later one.

    ``writer`` names a job and stream; versions are batch numbers, which only grow. A replay appends nothing. Returns
    the files written, None for a replay; the caller holds the table's lease.
    """
    before = newest_version(table)
    assert before is not None, "a table is created before rows are appended to it"
    rows.write.format("delta").mode("append").options(**once(writer, version), mergeSchema="true").save(
        str(table)
    )
    return files_added(table, before, _known_as(writer))


def append_row(
    spark: SparkSession, row: Mapping[str, object], table: Path, writer: str, version: int, name: str = ""
) -> None:
    """Append one row, by the names of the table's columns, as ``append_once`` does.

    With the ``name`` of a table of ``sql/tables``, one of an earlier version gains the columns that it lacks.
    """
    append_rows(spark, [row], table, writer, version, name)


def append_rows(
    spark: SparkSession,
    rows: Sequence[Mapping[str, object]],
    table: Path,
    writer: str,
    version: int,
    name: str = "",
) -> None:
    """Append a handful of rows, by the names of the table's columns, as ``append_row`` does."""
    there = read(spark, table)
    schema = to_arrow_schema((as_declared(there, name) if name else there).schema)
    # From Arrow, so that no Python worker is asked for a few rows.
    append_once(
        spark.createDataFrame(pa.Table.from_pylist(list(map(dict, rows)), schema)), table, writer, version
    )


def remove(spark: SparkSession, table: Path, condition: str) -> None:
    """Delete the rows of which a condition holds; a merge of the table's files is waited for.

    Raises:
        LeaseHeld: when the merge takes longer than ``MERGE_S``.
    """
    with lease(files_of(table), MERGE_S):
        DeltaTable.forPath(spark, str(table)).delete(condition)


def side_by_side(*steps: Callable[[], object]) -> None:
    """Run steps at the same time: each is mostly Delta waiting for its own log."""
    with ThreadPoolExecutor(len(steps)) as pool:
        for done in [pool.submit(step) for step in steps]:
            done.result()


def once(writer: str, version: int) -> dict[str, str]:
    """Return the options that make a Delta write of this version happen once."""
    return {"txnAppId": _known_as(writer), "txnVersion": str(version)}


def _known_as(writer: str) -> str:
    return f"tidemark-{writer}"


def create_raw(spark: SparkSession, table: Path, stream: Stream) -> None:
    """Create a stream's raw table when there is none."""
    columns = "".join(f"`{name}` {sql_type(column)},\n    " for name, column in stream.all_columns.items())
    create(spark, table, "raw", columns=columns)


def create_quarantine(spark: SparkSession, table: Path) -> None:
    """Create a stream's quarantine when there is none."""
    create(spark, table, "quarantine")


def create_ledger(spark: SparkSession, table: Path) -> None:
    """Create a stream's ledger when there is none."""
    create(spark, table, "ledger")


def as_declared(rows: DataFrame, name: str) -> DataFrame:
    """Return the rows of a table of ``sql/tables``, null in columns that an earlier version created it without."""
    fields = _columns_of(statement(f"tables/{name}"))
    lacking = {field.name: field.dataType for field in fields if field.name not in rows.columns}
    return rows.withColumns({column: F.lit(None).cast(kind) for column, kind in lacking.items()})


def create_corrections(spark: SparkSession, table: Path) -> None:
    """Create a stream's table of corrections when there is none."""
    create(spark, table, "corrections")


def create_rollup(spark: SparkSession, table: Path, stream: Stream) -> None:
    """Create a stream's rollup table when there is none."""
    if not exists(table):
        spark.sql(_rollup_statement(stream).replace("{path}", str(table)))


def _rollup_statement(stream: Stream) -> str:
    keys = "".join(f"`{key}` {sql_type(stream.all_columns[key])},\n    " for key in stream.grouping_keys)
    measures = "".join(
        f",\n    {column}" for name in stream.measures for column in measure_columns(stream, name)
    )
    parts = {"keys": keys, "measures": measures, "definition": stream.definition()}
    return _filled(statement("tables/rollup"), parts)


def rollup_schema(stream: Stream) -> StructType:
    """Return the columns of a stream's rollup table, with their types and comments."""
    return _columns_of(_rollup_statement(stream))


def _columns_of(text: str) -> StructType:
    return cast(StructType, StructType.fromDDL(text[text.index("(\n") + 1 : text.index("\n) USING DELTA")]))


def replace_rollup(
    spark: SparkSession, table: Path, stream: Stream, rows: DataFrame, properties: Mapping[str, str]
) -> None:
    """Make the stream's rollup table of these rows and today's declaration, in one commit.

    What was there stays for readers of earlier versions; which writes were already made is remembered.
    """
    told = {**_STATS, "tidemark.definition": stream.definition(), **kept(), **properties}
    columns = [
        F.col(f.name).cast(f.dataType).alias(f.name, metadata=f.metadata) for f in rollup_schema(stream)
    ]
    # Parquet skips what a filter on level or start rules out, if rows stand in that order.
    ordered = rows.select(*columns).repartition(1).sortWithinPartitions("level", "grouping", "start_us")
    writer = ordered.writeTo(f"delta.`{table}`").using("delta")
    for name, value in told.items():
        writer = writer.tableProperty(name, value)
    writer.createOrReplace()


def measure_columns(stream: Stream, measure: str) -> list[str]:
    """Return the columns of one measure in a rollup table, with their types."""
    value = sql_type(stream.all_columns[measure])
    total = value if value == "double" else f"decimal(38,{stream.all_columns[measure].scale})"
    types = {
        "n": "bigint",
        "sum": total,
        "min": value,
        "max": value,
        "first_us": "bigint",
        "last_us": "bigint",
    }
    if measure in stream.counters:
        types |= dict.fromkeys(COUNTER_PARTS, "double")
    return [f"{measure}__{part} {kind}" for part, kind in types.items()]


def create(spark: SparkSession, table: Path, name: str, **parts: str) -> None:
    """Create a table of ``sql/tables`` when there is none; ``parts`` fill the gaps in its statement."""
    if not exists(table):
        spark.sql(_filled(statement(f"tables/{name}"), {"path": str(table), **parts}))


def _filled(text: str, parts: Mapping[str, str]) -> str:
    for key, value in parts.items():
        text = text.replace("{" + key + "}", value)
    return text

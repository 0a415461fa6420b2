"""Delta tables by path: create, read, append exactly once, and a lease that keeps writers one at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.config.columns import sql_type
from lakehouse.config.stream import COUNTER_PARTS, Stream
from lakehouse.spark.ddl import schema_of
from lakehouse.storage.control.lease import MERGE_S as MERGE_S
from lakehouse.storage.control.lease import WAIT_S as WAIT_S
from lakehouse.storage.control.lease import LeaseHeld as LeaseHeld
from lakehouse.storage.control.lease import lease as lease
from lakehouse.storage.control.lease import turn as turn
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.table_commits import (
    DataFile,
    append,
    as_json,
    committed,
    create_table,
    known_as,
)
from lakehouse.storage.tables.table_maintenance import kept
from lakehouse.storage.tables.table_replacement import replace_table
from sql import statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROLLUP_STATISTICS = ("level", "grouping", "start_us", "batch")
_STATS = {"delta.dataSkippingStatsColumns": ",".join(ROLLUP_STATISTICS)}


def exists(table: Location) -> bool:
    """True if a Delta table has been created here."""
    return any((table / "_delta_log").glob("*.json"))


def read(spark: SparkSession, table: Location, version: int | None = None) -> DataFrame:
    """Return a version of the table, by default whatever is current when it is read."""
    reader = spark.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(str(table))


def is_appended(table: Location, writer: str, version: int) -> bool:
    """True if a writer has appended this version or a later one."""
    with opened(table) as known:
        return committed(known, known_as(writer)) >= version


def append_row(row: Mapping[str, object], table: Location, writer: str, version: int) -> None:
    """Append one row, by the names of the table's columns, unless the writer has appended this version."""
    append_rows([row], table, writer, version)


def append_rows(rows: Sequence[Mapping[str, object]], table: Location, writer: str, version: int) -> None:
    """Append a handful of rows, by the names of the table's columns, as ``append_row`` does."""
    append(table, rows, (known_as(writer), version))


def side_by_side(*steps: Callable[[], Any]) -> list[Any]:
    """Run steps at the same time, the last in this thread; return their results.

    Each is mostly Delta waiting for its own log.
    """
    with ThreadPoolExecutor(len(steps)) as pool:
        others = [pool.submit(step) for step in steps[:-1]]
        last = steps[-1]()
        return [*(other.result() for other in others), last]


def create_raw(table: Location, stream: Stream, name: str = "raw") -> None:
    """Create a stream's raw table when there is none, or another one that has its columns."""
    columns = "".join(f"`{name}` {sql_type(column)},\n    " for name, column in stream.all_columns.items())
    create(table, name, columns=columns)


def declared_columns(name: str) -> pa.Schema:
    """Return the columns of a table of ``sql/tables`` as Arrow has them."""
    return _columns_of(statement(f"tables/{name}"))


def create_rollup(table: Location, stream: Stream) -> None:
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
    table: Location, stream: Stream, added: Sequence[DataFile], properties: Mapping[str, str]
) -> None:
    """Make the stream's rollup table of these files and today's declaration, in one commit.

    What was there stays for readers of earlier versions; which writes were already made is remembered. Raises
    LeaseLost when another process has taken the lease meanwhile.
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


def create(table: Location, name: str, **parts: str) -> None:
    """Create a table of ``sql/tables`` when there is none; ``parts`` fill the gaps in its statement."""
    if not exists(table):
        _create(table, _filled(statement(f"tables/{name}"), parts))


def _create(table: Location, text: str) -> None:
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

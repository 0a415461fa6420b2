"""The typed row that may stand beside a line: its type, and lines that have none."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.declare.columns import sql_type
from lakehouse.declare.stream import Stream
from lakehouse.spark.ddl import schema_of


def typed_type(stream: Stream) -> StructType:
    """Return the type of ``typed``."""
    columns = {name: sql_type(column) for name, column in stream.all_columns.items()}
    digest = {"record_hash": "binary"} if stream.identity_is_record else {}
    fields = {"event_us": "bigint", "arrival_us": "bigint", **columns, "source_item": "int", **digest}
    named = (f"`{name.replace('`', '``')}` {kind}" for name, kind in fields.items())
    return schema_of(", ".join(named))


def with_typed(lines: DataFrame, stream: Stream) -> DataFrame:
    """Return lines that have ``typed``, null where none of them is known to be plain."""
    if "typed" in lines.columns:
        return lines
    return lines.withColumn("typed", F.lit(None).cast(typed_type(stream)))

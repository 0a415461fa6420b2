"""Columns as SQL writes them -> a schema, without starting Spark, whose own parser needs its JVM."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from sqlglot import exp

_TYPES: dict[str, DataType] = {
    **{"STRING": StringType(), "BINARY": BinaryType(), "BOOLEAN": BooleanType(), "DATE": DateType()},
    **{"SMALLINT": ShortType(), "INT": IntegerType(), "BIGINT": LongType()},
    **{"FLOAT": FloatType(), "DOUBLE": DoubleType(), "TIMESTAMP": TimestampType()},
}


@lru_cache(maxsize=1024)
def schema_of(columns: str) -> StructType:
    """Return columns with their types and comments, as ``CREATE TABLE`` of Spark's SQL has them.

    Raises:
        KeyError: at a type that no table has.
    """
    from sqlglot import exp, parse_one

    # The parser knows a quote within quotes by a backslash only.
    written = columns.replace("''", "\\'")
    tree = parse_one(f"CREATE TABLE t ({written})", dialect="spark")
    return StructType([_field(column) for column in tree.this.find_all(exp.ColumnDef) if _is_top(column)])


def _is_top(column: exp.ColumnDef) -> bool:
    from sqlglot import exp

    return isinstance(column.parent, exp.Schema)


def _field(column: exp.ColumnDef) -> StructField:
    from sqlglot import exp

    comment, is_nullable = None, True
    for constraint in column.args.get("constraints") or []:
        if isinstance(constraint.kind, exp.CommentColumnConstraint):
            comment = constraint.kind.this.name
        elif isinstance(constraint.kind, exp.NotNullColumnConstraint):
            is_nullable = False
    metadata = {} if comment is None else {"comment": comment}
    return StructField(column.name, _type(column.args["kind"]), is_nullable, metadata)


def _type(kind: exp.DataType) -> DataType:
    from sqlglot import exp

    inner = kind.expressions
    match kind.this:
        case exp.DataType.Type.ARRAY:
            return ArrayType(_type(inner[0]))
        case exp.DataType.Type.MAP:
            return MapType(_type(inner[0]), _type(inner[1]))
        case exp.DataType.Type.STRUCT:
            return StructType([_field(each) for each in inner])
        case exp.DataType.Type.DECIMAL:
            return DecimalType(*(int(each.name) for each in inner))
    return _TYPES[kind.sql("spark")]

"""Columns as SQL writes them -> an Arrow schema, without starting Spark, whose own parser needs its JVM."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from sqlglot import exp

_TYPES: dict[str, pa.DataType] = {
    **{"STRING": pa.string(), "BINARY": pa.binary(), "BOOLEAN": pa.bool_(), "DATE": pa.date32()},
    **{"SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64()},
    **{"FLOAT": pa.float32(), "DOUBLE": pa.float64(), "TIMESTAMP": pa.timestamp("us", "UTC")},
}


@lru_cache(maxsize=1024)
def schema_of(columns: str) -> pa.Schema:
    """Return columns with their types and comments, as ``CREATE TABLE`` of Spark's SQL has them.

    Raises KeyError at a type that no table has.
    """
    from sqlglot import exp, parse_one

    # The parser knows a quote within quotes by a backslash only.
    written = columns.replace("''", "\\'")
    tree = parse_one(f"CREATE TABLE t ({written})", dialect="spark")
    return pa.schema(
        [
            _field(column)
            for column in tree.this.find_all(exp.ColumnDef)
            if isinstance(column.parent, exp.Schema)
        ]
    )


def _field(column: exp.ColumnDef) -> pa.Field:
    from sqlglot import exp

    metadata, is_nullable = None, True
    for constraint in column.args.get("constraints") or []:
        if isinstance(constraint.kind, exp.CommentColumnConstraint):
            metadata = {"comment": constraint.kind.this.name}
        elif isinstance(constraint.kind, exp.NotNullColumnConstraint):
            is_nullable = False
    return pa.field(column.name, _type(column.args["kind"]), is_nullable, metadata)


def _type(kind: exp.DataType) -> pa.DataType:
    from sqlglot import exp

    inner = kind.expressions
    match kind.this:
        case exp.DataType.Type.ARRAY:
            return pa.list_(_type(inner[0]))
        case exp.DataType.Type.MAP:
            return pa.map_(_type(inner[0]), _type(inner[1]))
        case exp.DataType.Type.STRUCT:
            return pa.struct([_field(each) for each in inner])
        case exp.DataType.Type.DECIMAL:
            return pa.decimal128(*(int(each.name) for each in inner))
    return _TYPES[kind.sql("spark")]

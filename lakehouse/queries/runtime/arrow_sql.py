"""Evaluate conditions and columns that are written in Spark's SQL on Arrow rows, with Spark's result, without Spark.

A condition is one that the parser accepts. A column is one that a kind of query makes of raw rows, with ``xxhash64``,
``pmod``, ``IF``, ``CASE``, ``coalesce`` and ``CAST``. A comparison with null is null; NOT, AND and OR have three
values; sums are of doubles. Numbers of different types are compared as Spark compares them: with a double as doubles,
otherwise exactly. They are also compared exactly if a literal has more digits than a decimal column, where Spark
rounds.

Cost: a pass of compiled code over the columns for each operator in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.queries.language.text import DIALECT
from lakehouse.spark.row_hash import xxhash64

if TYPE_CHECKING:
    from sqlglot import exp

Mask = Callable[[pa.RecordBatch], Any]
_COMPARED = {
    "EQ": pc.equal,
    "NEQ": pc.not_equal,
    "LT": pc.less,
    "LTE": pc.less_equal,
    "GT": pc.greater,
    "GTE": pc.greater_equal,
}
_RECKONED = {"Add": pc.add, "Sub": pc.subtract, "Mul": pc.multiply, "Div": pc.divide}
_SHAPED = {
    "Length": pc.utf8_length,
    "Neg": pc.negate,
    "Abs": pc.abs,
}


_TYPES = {
    **{"bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "boolean": pa.bool_()},
    "double": pa.float64(),
}


def mask_of(sql: str) -> Mask:
    """Return a function that says for each row of a batch whether the condition holds; null counts as false.

    Raises:
        ValueError: at an operator that the parser does not accept.
    """
    tree = _parsed(sql)

    def run(rows: pa.RecordBatch) -> Any:
        found = _value(tree, rows)
        if isinstance(found, pa.Scalar):
            return np.full(rows.num_rows, bool(found.as_py()))
        return found.fill_null(False)

    return run


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """Return rows as one record batch."""
    return pa.record_batch([column.combine_chunks() for column in rows.columns], rows.schema)


def where(rows: pa.RecordBatch, condition: str | None) -> pa.RecordBatch:
    """Return the rows for which a condition holds; without a condition, all rows."""
    return rows if condition is None else rows.filter(pa.array(mask_of(condition)(rows)))


def select(rows: pa.RecordBatch, columns: Sequence[str]) -> pa.Table:
    """Return columns of each row, each given as SQL with a name or as the name of a column.

    Raises:
        ValueError: at a function that is not listed above.
    """
    trees = [_parsed(each) for each in columns]
    return pa.table([_column(tree.unalias(), rows) for tree in trees], [tree.alias_or_name for tree in trees])


def columns_read(texts: Sequence[str]) -> set[str]:
    """Return the names of the columns that conditions and columns read."""
    from sqlglot import exp

    return {column.name for text in texts for column in _parsed(text).find_all(exp.Column)}


@lru_cache(maxsize=4096)
def _parsed(sql: str) -> exp.Expr:
    from sqlglot import parse_one

    return parse_one(sql, dialect=DIALECT)


def _column(node: exp.Expr, rows: pa.RecordBatch) -> Any:
    from sqlglot import exp

    value = _value(node, rows)
    if isinstance(node, exp.Literal) and pa.types.is_int64(value.type) and abs(value.as_py()) < 2**31:
        # An int, as in Spark.
        value = value.cast(pa.int32())
    return _filled(value, rows.num_rows)


def _filled(value: Any, rows: int) -> Any:
    """Return an array with the value of each row."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def _value(node: exp.Expr, rows: pa.RecordBatch) -> Any:
    """Return an array, or a scalar if no column is read."""
    from sqlglot import exp

    match node:
        case exp.Column():
            return rows.column(node.name)
        case exp.Paren():
            return _value(node.this, rows)
        case exp.Literal():
            return pa.scalar(node.this) if node.is_string else _number(node.this)
        case exp.Boolean():
            return pa.scalar(bool(node.this))
        case exp.Null():
            return pa.scalar(None)
        case exp.Cast():
            return _cast(_value(node.this, rows), node.to.sql(DIALECT))
        case exp.Anonymous() | exp.If() | exp.Case() | exp.Coalesce():
            return _function(node, rows)
    return _condition(node, rows)


def _function(node: exp.Expr, rows: pa.RecordBatch) -> Any:
    """Evaluate a function that conditions do not have, but columns do."""
    from sqlglot import exp

    match node:
        case exp.If():
            return _chosen(node, _value(node.args["false"], rows), rows)
        case exp.Case():
            [only] = node.args["ifs"]
            return _chosen(only, pa.scalar(None), rows)
        case exp.Coalesce():
            return pc.coalesce(*(_value(each, rows) for each in (node.this, *node.expressions)))
    values = [_column(each, rows) for each in node.expressions]
    if node.name == "xxhash64":
        return pa.array(xxhash64(values, rows.num_rows))
    if node.name == "pmod":
        return pa.array(np.mod(values[0].to_numpy(), values[1].to_numpy()))
    raise ValueError(f"expected a function that columns have, found {node.name}")


def _chosen(node: exp.Expr, other: Any, rows: pa.RecordBatch) -> Any:
    """Return one value where a condition holds, and another where it does not hold or is null."""
    one = _value(node.args["true"], rows)
    other = other.cast(one.type) if pa.types.is_null(other.type) else other
    holds = pc.fill_null(_truth(_value(node.this, rows)), False)
    found = pc.if_else(holds, one, other)
    return _filled(found, rows.num_rows)


def _cast(one: Any, kind: str) -> Any:
    if kind.lower() == "double":
        return _double(one)
    return pc.cast(one, _arrow_type(kind.lower()))


@lru_cache(maxsize=256)
def _arrow_type(kind: str) -> pa.DataType:
    if kind.startswith("decimal("):
        precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return _TYPES[kind]


def _condition(node: exp.Expr, rows: pa.RecordBatch) -> Any:
    from sqlglot import exp

    match node:
        case exp.Not():
            return pc.invert(_truth(_value(node.this, rows)))
        case exp.And() | exp.Or():
            both = (_truth(_value(each, rows)) for each in (node.this, node.expression))
            return (pc.and_kleene if isinstance(node, exp.And) else pc.or_kleene)(*both)
        case exp.In():
            one = _value(node.this, rows)
            found = (_compared("EQ", one, _value(each, rows)) for each in node.expressions)
            return reduce(pc.or_kleene, map(_truth, found))
        case exp.Between():
            one = _value(node.this, rows)
            low, high = (_value(node.args[end], rows) for end in ("low", "high"))
            return pc.and_kleene(_compared("GTE", one, low), _compared("LTE", one, high))
        case exp.Is():
            return _is(_value(node.this, rows), node.expression, rows)
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            same = _same(_value(node.this, rows), _value(node.expression, rows))
            return same if isinstance(node, exp.NullSafeEQ) else pc.invert(same)
    return _operation(node, rows)


def _operation(node: exp.Expr, rows: pa.RecordBatch) -> Any:
    name, one = type(node).__name__, _value(node.this, rows)
    if name in _COMPARED:
        return _compared(name, one, _value(node.expression, rows))
    if name in ("Like", "ILike"):
        both = _text(one), node.expression.this
        # In lower case, as in Spark.
        return (
            pc.match_like(_cased(both[0], "lower"), both[1].lower())
            if name == "ILike"
            else pc.match_like(*both)
        )
    if name in ("Lower", "Upper"):
        return _cased(_text(one), name.lower())
    if name in _RECKONED:
        return _reckoned(name, one, _value(node.expression, rows))
    if name == "Mod":
        return _remainder(_double(one), _double(_value(node.expression, rows)))
    if name == "Trim":
        return pc.utf8_trim(_text(one), characters=" ")
    if name in ("Neg", "Abs"):
        return _SHAPED[name](_double(one))
    if name in _SHAPED:
        return _SHAPED[name](_text(one))
    raise ValueError(f"expected a sign that the catalog lets through, found {name}")


def _reckoned(name: str, one: Any, two: Any) -> Any:
    """Calculate in doubles; only times, which users' conditions do not contain directly, are whole numbers."""
    if name == "Sub" and all(
        isinstance(each, pa.Array) and pa.types.is_int64(each.type) for each in (one, two)
    ):
        return pc.subtract(one, two)
    return _RECKONED[name](_double(one), _double(two))


def _compared(name: str, one: Any, two: Any) -> Any:
    """Compare two values; booleans as 0 and 1, and null with null only where the operator says so."""
    one, two = _alike(one, two)
    if pa.types.is_floating(one.type) and any(pc.any(pc.is_nan(each)).as_py() for each in (one, two)):
        return _COMPARED[name](*_ranked(one, two))
    return _COMPARED[name](one, two)


def _ranked(one: Any, two: Any) -> tuple[Any, Any]:
    """Return whole numbers that compare as doubles do in Spark: NaN equals itself and is greater than all others."""
    is_above, is_below = pc.greater(one, two), pc.less(one, two)
    nan_one, nan_two = pc.is_nan(one), pc.is_nan(two)
    first = pc.if_else(pc.or_(is_above, pc.and_not(nan_one, nan_two)), 1, 0)
    second = pc.if_else(pc.or_(is_below, pc.and_not(nan_two, nan_one)), 1, 0)
    return first, second


def _alike(one: Any, two: Any) -> tuple[Any, Any]:
    """Return two values in a common type."""
    if pa.types.is_null(one.type) and pa.types.is_null(two.type):
        return one.cast(pa.int64()), two.cast(pa.int64())
    if pa.types.is_null(one.type):
        return _alike(one.cast(two.type), two)
    if pa.types.is_null(two.type):
        return _alike(one, two.cast(one.type))
    types = (one.type, two.type)
    if any(map(pa.types.is_boolean, types)):
        return one.cast(pa.int8()), two.cast(pa.int8())
    if any(map(pa.types.is_floating, types)):
        return _double(one), _double(two)
    if pa.types.is_decimal(types[0]) != pa.types.is_decimal(types[1]) or types[0] != types[1]:
        return _exact(one, two)
    return one, two


def _exact(one: Any, two: Any) -> tuple[Any, Any]:
    """Return whole numbers and decimals as decimals of one type; texts as they are."""
    types = [each.type for each in (one, two)]
    if not any(map(pa.types.is_decimal, types)):
        return one, two
    scale = max(each.scale for each in types if pa.types.is_decimal(each))
    wide = pa.decimal256(76, scale)
    return one.cast(wide), two.cast(wide)


def _same(one: Any, two: Any) -> Any:
    """Return where two values are equal or both null."""
    both = pc.and_(pc.is_null(one), pc.is_null(two))
    return pc.or_(both, pc.fill_null(_compared("EQ", one, two), False))


def _is(one: Any, asked: exp.Expr, rows: pa.RecordBatch) -> Any:
    from sqlglot import exp

    if isinstance(asked, exp.Null):
        return pc.is_null(one)
    return _same(_truth(one), _truth(_value(asked, rows)))


def _remainder(one: Any, two: Any) -> Any:
    """Return the remainder of a division, with the sign of the dividend; pyarrow has no such function."""
    if isinstance(one, pa.Scalar):
        return pa.scalar(
            None if one.as_py() is None else float(np.fmod(one.as_py(), two.as_py())), pa.float64()
        )
    values = np.fmod(one.to_numpy(zero_copy_only=False), two.as_py())
    return pa.array(values, pa.float64(), mask=one.is_null().to_numpy(zero_copy_only=False))


def _number(text: str) -> pa.Scalar:
    """Return a number as Spark parses it: a double if it has an exponent, exact if it has a point."""
    from decimal import Decimal

    if "e" in text.lower():
        return pa.scalar(float(text))
    if "." in text or abs(int(text)) >= 2**63:
        return pa.scalar(Decimal(text))
    return pa.scalar(int(text))


def _double(one: Any) -> Any:
    """Return the nearest doubles; Arrow's own conversion of decimals is often off by one unit in the last place."""
    exact = pc.cast(one, pa.string()) if pa.types.is_decimal(one.type) else one
    return pc.cast(exact, pa.float64(), safe=False)


def _truth(one: Any) -> Any:
    return one.cast(pa.bool_()) if pa.types.is_null(one.type) else one


def _cased(one: Any, case: str) -> Any:
    """Return texts in lower or upper case; outside ASCII a letter may become two, which Arrow does not do."""
    if isinstance(one, pa.Scalar):
        return pa.scalar(None if one.as_py() is None else getattr(one.as_py(), case)(), one.type)
    if pc.all(pc.string_is_ascii(one)).as_py() is not False:
        return (pc.ascii_lower if case == "lower" else pc.ascii_upper)(one)
    found = one.dictionary_encode()
    texts = [getattr(text, case)() for text in found.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(found.indices)


def _text(one: Any) -> Any:
    return one.cast(pa.string()) if pa.types.is_null(one.type) else one

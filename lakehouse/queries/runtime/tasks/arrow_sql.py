"""Evaluate conditions and columns, written in SQL, on Arrow rows: the one evaluation that conditions have.

A condition is one that the parser accepts. A column is one that a kind of query makes of raw rows, with ``xxhash64``,
``pmod``, ``IF``, ``CASE``, ``coalesce`` and ``CAST``. It is what tasks evaluate rows with.

A comparison with null is null; NOT, AND and OR have three values. Whole numbers, decimals and literals without an
exponent are compared exactly, whatever digits they have; beside a double all are compared as doubles. NaN equals itself
and is greater than every other number; -0.0 equals 0.0. Sums, products and what else is calculated are doubles.

Cost: a pass of compiled code over the columns for each operator in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.queries.language.arguments import unread
from lakehouse.queries.language.patterns import like_regex
from lakehouse.queries.language.text import DIALECT
from lakehouse.spark.comparisons import COMPARISONS, compared, double, is_null, same
from lakehouse.spark.row_hash import xxhash64

if TYPE_CHECKING:
    from sqlglot import exp

Mask = Callable[[pa.RecordBatch], Any]
_RECKONED = {"Add": pc.add, "Sub": pc.subtract, "Mul": pc.multiply, "Div": pc.divide}
_SHAPED = {
    "Length": pc.utf8_length,
    "Neg": pc.negate,
    "Abs": pc.abs,
}


# By the parser's names.
_TYPES = {"BIGINT": pa.int64(), "INT": pa.int32(), "TEXT": pa.string(), "BOOLEAN": pa.bool_()}


def mask_of(sql: str) -> Mask:
    """Return a function that says for each row of a batch whether the condition holds; null counts as false.

    Raises ValueError at an operator that the parser does not accept.
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

    Raises ValueError at a function that is not listed above.
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

    tree = parse_one(sql, dialect=DIALECT)
    if odd := [found for _, found in unread(tree)]:
        raise ValueError(f"expected arguments that are evaluated, found {odd[0]} in {sql}")
    return tree


def _column(node: exp.Expr, rows: pa.RecordBatch) -> Any:
    from sqlglot import exp

    value = _stored(_value(node, rows))
    if isinstance(node, exp.Literal) and pa.types.is_int64(value.type) and abs(value.as_py()) < 2**31:
        # An int, as in Spark.
        value = value.cast(pa.int32())
    return _filled(value, rows.num_rows)


def _stored(value: Any) -> Any:
    """Return an exact literal as a value of Arrow's, all others as they are."""
    if not isinstance(value, Decimal):
        return value
    return pa.scalar(int(value) if value == value.to_integral_value() else value)


def _filled(value: Any, rows: int) -> Any:
    """Return an array with the value of each row."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def _value(node: exp.Expr, rows: pa.RecordBatch) -> Any:
    """Return an array, or a scalar if no column is read; of an exact literal the number itself."""
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
            return _cast(node, _value(node.this, rows))
        case exp.Anonymous() | exp.If() | exp.Case() | exp.Coalesce():
            return _function(node, rows)
    return _condition(node, rows)


def _function(node: exp.Expr, rows: pa.RecordBatch) -> Any:
    """Evaluate a function that conditions do not have, but columns do."""
    from sqlglot import exp

    match node:
        case exp.If():
            return _chosen(node, _stored(_value(node.args["false"], rows)), rows)
        case exp.Case():
            [only] = node.args["ifs"]
            return _chosen(only, pa.scalar(None), rows)
        case exp.Coalesce():
            return pc.coalesce(*(_stored(_value(each, rows)) for each in (node.this, *node.expressions)))
    values = [_column(each, rows) for each in node.expressions]
    if node.name == "xxhash64":
        return pa.array(xxhash64(values, rows.num_rows))
    if node.name == "pmod":
        return pa.array(np.mod(values[0].to_numpy(), values[1].to_numpy()))
    raise ValueError(f"expected a function that columns have, found {node.name}")


def _chosen(node: exp.Expr, other: Any, rows: pa.RecordBatch) -> Any:
    """Return one value where a condition holds, and another where it does not hold or is null."""
    one = _stored(_value(node.args["true"], rows))
    other = other.cast(one.type) if pa.types.is_null(other.type) else other
    holds = pc.fill_null(_truth(_value(node.this, rows)), False)
    found = pc.if_else(holds, one, other)
    return _filled(found, rows.num_rows)


def _cast(node: exp.Cast, one: Any) -> Any:
    kind = node.to.this.name
    if kind == "DOUBLE":
        return double(one)
    digits = (int(each.name) for each in node.to.expressions)
    try:
        return pc.cast(_stored(one), pa.decimal128(*digits) if kind == "DECIMAL" else _TYPES[kind])
    except pa.ArrowInvalid as error:
        text, shown = node.this.sql(DIALECT), node.to.sql(DIALECT)
        raise ValueError(
            f"expected values of {text} that fit {shown}, found one that does not: {error}"
        ) from error


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
            found = (compared("EQ", one, _value(each, rows)) for each in node.expressions)
            return reduce(pc.or_kleene, map(_truth, found))
        case exp.Between():
            one = _value(node.this, rows)
            low, high = (_value(node.args[end], rows) for end in ("low", "high"))
            return pc.and_kleene(compared("GTE", one, low), compared("LTE", one, high))
        case exp.Is():
            return _is(_value(node.this, rows), node.expression, rows)
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            is_same = same(_value(node.this, rows), _value(node.expression, rows))
            return is_same if isinstance(node, exp.NullSafeEQ) else pc.invert(is_same)
    return _operation(node, rows)


def _operation(node: exp.Expr, rows: pa.RecordBatch) -> Any:
    name, one = type(node).__name__, _value(node.this, rows)
    if name in COMPARISONS:
        return compared(name, one, _value(node.expression, rows))
    if name in ("Like", "ILike"):
        is_like = _like(_text(one), node, node.parent)
        return pc.invert(is_like) if node.args.get("negate") else is_like
    if name == "Escape":
        return one
    if name in ("Lower", "Upper"):
        return _cased(_text(one), name.lower())
    if name in _RECKONED:
        return _reckoned(name, one, _value(node.expression, rows))
    if name == "Mod":
        return _remainder(double(one), double(_value(node.expression, rows)))
    if name == "Trim":
        return pc.utf8_trim(_text(one), characters=" ")
    if name == "Neg" and isinstance(one, Decimal):
        return one.copy_negate()
    if name in ("Neg", "Abs"):
        return _SHAPED[name](double(one))
    if name in _SHAPED:
        return _SHAPED[name](_text(one))
    raise ValueError(f"expected an operator that conditions have, found {name}")


def _like(one: Any, node: exp.Expr, above: exp.Expr | None) -> Any:
    """Match texts with the pattern of LIKE, or of ILIKE, which compares each character in lower case.

    ``above``: the node around it, of which ESCAPE is the pattern's. What is escaped is matched by a regular expression:
    ``match_like`` does not find a backslash at either end of a pattern.
    """
    from sqlglot import exp

    cased: Callable[[str], str] = _lower if isinstance(node, exp.ILike) else str
    one, pattern = pc.utf8_lower(one) if cased is _lower else one, node.expression.this
    if isinstance(above, exp.Escape):
        return pc.match_substring_regex(one, like_regex(pattern, above.expression.this, cased))
    return pc.match_like(one, cased(pattern))


def _lower(text: str) -> str:
    return str(pc.utf8_lower(pa.scalar(text)).as_py())


def _reckoned(name: str, one: Any, two: Any) -> Any:
    """Calculate in doubles; only times, which users' conditions do not contain directly, are whole numbers."""
    if name == "Sub" and all(
        isinstance(each, pa.Array) and pa.types.is_int64(each.type) for each in (one, two)
    ):
        return pc.subtract(one, two)
    return _RECKONED[name](double(one), double(two))


def _is(one: Any, asked: exp.Expr, rows: pa.RecordBatch) -> Any:
    from sqlglot import exp

    if isinstance(asked, exp.Null):
        return is_null(one)
    return same(_truth(one), _truth(_value(asked, rows)))


def _remainder(one: Any, two: Any) -> Any:
    """Return the remainder of a division, with the sign of the dividend; pyarrow has no such function."""
    # The remainder of an infinity is no number.
    with np.errstate(invalid="ignore"):
        if isinstance(one, pa.Scalar):
            return pa.scalar(
                None if one.as_py() is None else float(np.fmod(one.as_py(), two.as_py())), pa.float64()
            )
        values = np.fmod(one.to_numpy(zero_copy_only=False), two.as_py())
    return pa.array(values, pa.float64(), mask=one.is_null().to_numpy(zero_copy_only=False))


def _number(text: str) -> pa.Scalar | Decimal:
    """Return a double if a number has an exponent, else the number itself."""
    return pa.scalar(float(text)) if "e" in text.lower() else Decimal(text)


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

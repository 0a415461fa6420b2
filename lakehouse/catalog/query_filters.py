"""Conditions on one side's rows: checked for what Spark would fail at while running, written as Spark SQL.

Only what is listed here is let through: each row alone decides, and no row can make the query fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.catalog.query_names import Names, offset_of
from lakehouse.catalog.query_text import DIALECT

if TYPE_CHECKING:
    from sqlglot import exp

TEXT, NUMBER, BOOLEAN, ANY = "text", "a number", "true or false", "null"
KINDS = {"string": TEXT, "boolean": BOOLEAN, "int": NUMBER, "double": NUMBER, "decimal": NUMBER}
_COMPARISONS = ("EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ")
_ARITHMETIC = ("Neg", "Abs", "Add", "Sub", "Mul", "Div", "Mod")
# Operands and result of what is let through besides.
_SHAPES = {
    **dict.fromkeys(("And", "Or", "Not"), (BOOLEAN, BOOLEAN)),
    **dict.fromkeys(("Like", "ILike"), (TEXT, BOOLEAN)),
    **dict.fromkeys(_ARITHMETIC, (NUMBER, NUMBER)),
    **dict.fromkeys(("Lower", "Upper", "Trim"), (TEXT, TEXT)),
    "Length": (TEXT, NUMBER),
}
_KNOWN = (
    "columns, texts, numbers, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, + - * / %, "
    "ABS, LOWER, UPPER, TRIM, LENGTH"
)


def check_filter(node: exp.Expr, names: Names) -> bool:
    """Note what is wrong with a condition on one side; tell if nothing is."""
    kind = _kind(node, names)
    if kind not in (None, BOOLEAN):
        names.faults.add(offset_of(node), kind, "a condition that is true or false")
    return kind == BOOLEAN


def filter_sql(node: exp.Expr) -> str:
    """Return a condition as Spark SQL over the raw table's columns.

    Columns are reckoned with as doubles, which cannot overflow: Spark would end the query when whole numbers do.
    """
    from sqlglot import exp

    def bare(each: exp.Expr) -> exp.Expr:
        if not isinstance(each, exp.Column):
            return each
        column = exp.column(each.name.lower(), quoted=True)
        above = each.parent
        while isinstance(above, exp.Paren):
            above = above.parent
        return exp.cast(column, "double") if type(above).__name__ in _ARITHMETIC else column

    sql = node.copy().transform(bare).sql(dialect=DIALECT, comments=False)
    return f"({sql})" if isinstance(node, exp.Or) else sql


def _kind(node: exp.Expr, names: Names) -> str | None:
    """Return what kind of value a node is; None where something below it is wrong and was noted."""
    from sqlglot import exp

    match node:
        case exp.Column():
            read = names.read(node)
            return KINDS[read.column.type] if read else None
        case exp.Literal():
            return TEXT if node.is_string else NUMBER
        case exp.Boolean():
            return BOOLEAN
        case exp.Null():
            return ANY
        case exp.Paren():
            return _kind(node.this, names)
    return _kind_of_operation(node, names)


def _kind_of_operation(node: exp.Expr, names: Names) -> str | None:
    name = type(node).__name__
    operands = [each for each in node.iter_expressions()]
    if name in ("In", "Between", "Is", *_COMPARISONS) and not node.args.get("query"):
        return _all_of(operands, None, names) and BOOLEAN
    if name not in _SHAPES:
        names.faults.add(offset_of(node), f"{_spelling(node)!r}", _KNOWN)
        return None
    if name in ("Div", "Mod") and not _is_safe_divisor(node.expression):
        names.faults.add(offset_of(node.expression), "a divisor that may be 0", "a number other than 0")
        return None
    if name in ("Like", "ILike") and not _is_safe_pattern(node.expression):
        expected = "a pattern in quotes, without backslashes"
        names.faults.add(offset_of(node.expression), _spelling(node.expression), expected)
        return None
    wanted, result = _SHAPES[name]
    return _all_of(operands, wanted, names) and result


def _all_of(operands: list[exp.Expr], wanted: str | None, names: Names) -> str | None:
    """Return the one kind that all operands are; what differs from the first, or from ``wanted``, is noted."""
    kinds = [_kind(each, names) for each in operands]
    if None in kinds:
        return None
    wanted = wanted or next((kind for kind in kinds if kind != ANY), ANY)
    for each, kind in zip(operands, kinds, strict=True):
        if kind not in (wanted, ANY):
            names.faults.add(offset_of(each), f"{_spelling(each)}, which is {kind}", str(wanted))
            return None
    return wanted


def _is_safe_divisor(node: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Literal) and not node.is_string and float(node.this) != 0


def _is_safe_pattern(node: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Literal) and node.is_string and "\\" not in node.this


def _spelling(node: exp.Expr) -> str:
    return node.sql(dialect=DIALECT, comments=False)

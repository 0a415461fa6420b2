"""Conditions and values of single rows: checked for what could fail while a query runs, written as SQL.

Only what is listed here is let through: each row alone decides, and no row can make the query fail. A condition on one
side of a query is a comparison, or the call of a predicate of the operator's own.
"""

from collections.abc import Callable, Iterator
from math import isfinite
from typing import Protocol

from sqlglot import exp

from lakehouse.config.columns import Column
from lakehouse.queries.kind import Conjunct, PythonCall
from lakehouse.queries.language.patterns import like_regex
from lakehouse.queries.language.predicates import Find, NoPredicate
from lakehouse.queries.language.text import DIALECT
from lakehouse.queries.language.tokens import Faults
from lakehouse.queries.language.tree import Names, Read, offset_of

_ALONE = "the call of a predicate that stands by itself between ANDs"
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
    "columns, texts, numbers, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, ESCAPE, IS NULL, + - * / %, "
    "ABS, LOWER, UPPER, TRIM, LENGTH"
)


def is_distance(node: exp.Expr) -> bool:
    """Tell the DISTANCE of a join of pairs, which SQL does not know either."""
    return type(node).__name__ == "Anonymous" and node.name.upper() == "DISTANCE"


def call_in(node: exp.Expr) -> exp.Anonymous | None:
    """Return the call of a predicate that a condition is or has within; None for none."""
    return next((each for each in node.find_all(exp.Anonymous) if not is_distance(each)), None)


def read_condition(node: exp.Expr, names: Names, predicates: Find) -> tuple[int, Conjunct] | None:
    """Return a condition with the number of its side; None, with the reason noted, where it cannot be run.

    Comparisons must be known to read no more than one side; calls are looked at here. ``predicates``: finds one of the
    operator's own.
    """
    if isinstance(node, exp.Anonymous):
        return _call(node, names, predicates)
    if nested := call_in(node):
        names.faults.add(offset_of(nested), f"{_as_written(nested)} within a condition", _ALONE)
        return None
    found = [names.read(column) for column in node.find_all(exp.Column)]
    reads = [read for read in found if read]
    if len(reads) < len(found):
        return None
    if not reads and not node.find(exp.AggFunc):
        stream = "the stream" if len(names.sources) == 1 else "the streams"
        names.faults.add(offset_of(node), "a condition that reads no column", f"a condition on {stream}")
        return None
    if not check_filter(node, names):
        return None
    return reads[0].side, Conjunct(filter_sql(node), tuple(sorted({read.name for read in reads})))


def _call(node: exp.Anonymous, names: Names, predicates: Find) -> tuple[int, Conjunct] | None:
    reads = list(_arguments(node, names))
    offset, name = offset_of(node), node.name.lower()
    try:
        predicate = predicates(name)
        predicate.require(len(node.expressions))
    except NoPredicate as error:
        names.faults.add(offset, error.reason, error.expected)
        return None
    if len(reads) < len(node.expressions):
        return None
    if not reads:
        names.faults.add(offset, f"{name}() without a column", "the columns that it reads")
        return None
    if len({read.side for read in reads}) > 1:
        found = f"{_as_written(node)}, which reads columns of several streams"
        names.faults.add(offset, found, "columns of one stream: a predicate is asked about one row")
        return None
    columns = tuple(read.name for read in reads)
    call = PythonCall(name, predicate.path, predicate.by_row)
    return reads[0].side, Conjunct(f"{name}({', '.join(columns)})", columns, call)


def _arguments(node: exp.Anonymous, names: Names) -> Iterator[Read]:
    """Yield the columns that a call is given; what is none is noted."""
    for each in node.expressions:
        if not isinstance(each, exp.Column):
            names.faults.add(offset_of(each), _as_written(each), "a plain column")
        elif read := names.read(each):
            yield read


def _as_written(node: exp.Expr) -> str:
    # A predicate's name is told as it is written: SQL's own would be capitals.
    return node.sql(DIALECT, comments=False, normalize_functions=False)


class Columns(Protocol):
    """Columns that can be read of a row."""

    faults: Faults

    def column(self, node: exp.Expr) -> Column | None:
        """Return what a column, or an aggregate, is; None where it cannot be read here, which is noted."""


def check_filter(node: exp.Expr, columns: Columns) -> bool:
    """Note what is wrong with a condition on a row; tell if nothing is."""
    kind = _kind(node, columns)
    if kind not in (None, BOOLEAN):
        columns.faults.add(offset_of(node), kind, "a condition that is true or false")
    return kind == BOOLEAN


def check_value(node: exp.Expr, columns: Columns) -> bool:
    """Note what is wrong with a number that a row gives; tell if nothing is."""
    return _all_of([node], NUMBER, columns) == NUMBER


def filter_sql(node: exp.Expr, name_of: Callable[[exp.Expr], str] = lambda node: node.name.lower()) -> str:
    """Return a condition as SQL over the raw table's columns; ``name_of`` a column, or an aggregate, if given.

    Columns are reckoned with as doubles, which cannot overflow, as whole numbers would.
    """

    def bare(each: exp.Expr) -> exp.Expr:
        if not isinstance(each, exp.Column | exp.AggFunc):
            return each
        column = exp.column(name_of(each), quoted=True)
        above = each.parent
        while isinstance(above, exp.Paren):
            above = above.parent
        return exp.cast(column, "double") if type(above).__name__ in _ARITHMETIC else column

    sql = node.copy().transform(bare).sql(dialect=DIALECT, comments=False)
    return f"({sql})" if isinstance(node, exp.Or) else sql


def value_sql(node: exp.Expr, kind: str) -> str:
    """Return a number that a row gives as SQL of a type over the raw table's columns."""
    return f"CAST({filter_sql(node)} AS {kind.upper().replace(',', ', ')})"


def presence_sql(node: exp.Column) -> str:
    """Return a number that is null where a column, of any type, is, as SQL of type double."""
    return f"CASE WHEN NOT {filter_sql(node)} IS NULL THEN CAST(1 AS DOUBLE) END"


def _kind(node: exp.Expr, columns: Columns) -> str | None:
    """Return what kind of value a node is; None where something below it is wrong and was noted."""
    match node:
        case exp.Column() | exp.AggFunc():
            column = columns.column(node)
            return KINDS[column.type] if column else None
        case exp.Literal():
            return TEXT if node.is_string else _kind_of_number(node, columns)
        case exp.Boolean():
            return BOOLEAN
        case exp.Null():
            return ANY
        case exp.Paren():
            return _kind(node.this, columns)
    return _kind_of_operation(node, columns)


def _kind_of_number(node: exp.Expr, columns: Columns) -> str | None:
    if isfinite(float(node.this)):
        return NUMBER
    columns.faults.add(offset_of(node), node.this, "a number that a double can hold, up to 1.79e308")
    return None


def _kind_of_operation(node: exp.Expr, columns: Columns) -> str | None:
    name = type(node).__name__
    operands = [each for each in node.iter_expressions()]
    if name == "In" and not node.expressions:
        columns.faults.add(offset_of(node), "IN of nothing", "IN and a list of values, such as (1, 2)")
        return None
    if name == "Is" and type(node.expression).__name__ not in ("Null", "Boolean"):
        expected = "IS NULL, IS TRUE, IS FALSE or IS DISTINCT FROM, each with NOT or without"
        columns.faults.add(offset_of(node), f"IS {_spelling(node.expression)}", expected)
        return None
    if name == "Escape":
        return _kind_of_escaped(node, columns)
    if name in ("In", "Between", "Is", *_COMPARISONS):
        return _all_of(operands, None, columns) and BOOLEAN
    if name not in _SHAPES:
        columns.faults.add(offset_of(node), f"{_spelling(node)!r}", _KNOWN)
        return None
    if name in ("Div", "Mod") and not _is_safe_divisor(node.expression):
        columns.faults.add(offset_of(node.expression), "a divisor that may be 0", "a number other than 0")
        return None
    if name in ("Like", "ILike") and not _is_safe_pattern(node.expression):
        expected = "a pattern in quotes, with ESCAPE behind one that has backslashes"
        columns.faults.add(offset_of(node.expression), _spelling(node.expression), expected)
        return None
    wanted, result = _SHAPES[name]
    return _all_of(operands, wanted, columns) and result


def _kind_of_escaped(node: exp.Expr, columns: Columns) -> str | None:
    """Return what kind of value LIKE with an escape character is; None where something is wrong and was noted."""
    like, escape = node.this, node.expression
    if not (isinstance(like, exp.Like | exp.ILike) and isinstance(like.expression, exp.Literal)):
        columns.faults.add(offset_of(node), _spelling(node), "LIKE and a pattern in quotes before ESCAPE")
        return None
    try:
        like_regex(like.expression.name, escape.name if isinstance(escape, exp.Literal) else "")
    except ValueError as error:
        columns.faults.add(offset_of(escape), _spelling(node), str(error))
        return None
    return _all_of([like.this, like.expression], TEXT, columns) and BOOLEAN


def _all_of(operands: list[exp.Expr], wanted: str | None, columns: Columns) -> str | None:
    """Return the one kind that all operands are; what differs from the first, or from ``wanted``, is noted."""
    kinds = [_kind(each, columns) for each in operands]
    if None in kinds:
        return None
    wanted = wanted or next((kind for kind in kinds if kind != ANY), ANY)
    for each, kind in zip(operands, kinds, strict=True):
        if kind not in (wanted, ANY):
            columns.faults.add(offset_of(each), f"{_spelling(each)}, which is {kind}", str(wanted))
            return None
    return wanted


def _is_safe_divisor(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and float(node.this) != 0


def _is_safe_pattern(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string and "\\" not in node.this


def _spelling(node: exp.Expr) -> str:
    return node.sql(dialect=DIALECT, comments=False)

"""Conditions on records as SQL writes them, of fields as texts or numbers: what ``source.where`` may say."""

from decimal import Decimal
from functools import cache
from typing import Annotated, Any

from pydantic import AfterValidator

# ("AND" or "OR", conditions ...), ("NOT", condition), ("NULL", path), ("LIKE", path, pattern), or (comparison, path,
# text or number).
Condition = tuple[Any, ...]
_COMPARISONS = {"EQ": "EQ", "NEQ": "NEQ", "LT": "GT", "LTE": "GTE", "GT": "LT", "GTE": "LTE"}
_ARGUMENTS = ("this", "expression", "expressions", "low", "high", "negate")
_EXPECTED = (
    "expected comparisons of a field with a text or number, IN, BETWEEN, LIKE, IS NULL, AND, OR and NOT, "
    "such as \"event_type = 'flow' AND flow.pkts > 1\""
)


@cache
def condition(where: str) -> Condition:
    """Return what a condition says. Raises ValueError when it is none, or says more than is known."""
    # It loads slowly: only who declares a condition waits for it.
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        return _read(sqlglot.parse_one(where, dialect="duckdb"))
    except SqlglotError as error:
        raise ValueError(f"{_EXPECTED}: {str(error).splitlines()[0]}") from None


def _read(node: Any) -> Condition:
    kind, args = type(node).__name__, node.args
    # Such as SYMMETRIC of BETWEEN: what is not known is not passed over.
    if any(value for name, value in args.items() if name not in _ARGUMENTS):
        raise ValueError(f"{_EXPECTED}; found {node.sql(dialect='duckdb')!r}")
    if kind == "Paren":
        return _read(node.this)
    if kind in ("And", "Or"):
        return (kind.upper(), _read(node.this), _read(node.expression))
    if kind == "Not":
        return ("NOT", _read(node.this))
    if kind == "Is" and type(node.expression).__name__ == "Null":
        return ("NULL", _path(node.this))
    if kind == "Like":
        is_like = ("LIKE", _path(node.this), _literal(node.expression))
        return ("NOT", is_like) if args.get("negate") else is_like
    if kind == "In" and args.get("expressions"):
        own = _path(node.this)
        return ("OR", *(("EQ", own, _literal(each)) for each in args["expressions"]))
    if kind == "Between":
        own = _path(node.this)
        return ("AND", ("GTE", own, _literal(args["low"])), ("LTE", own, _literal(args["high"])))
    if kind in _COMPARISONS:
        if type(node.this).__name__ in ("Column", "Dot"):
            return (kind, _path(node.this), _literal(node.expression))
        return (_COMPARISONS[kind], _path(node.expression), _literal(node.this))
    raise ValueError(f"{_EXPECTED}; found {node.sql(dialect='duckdb')!r}")


def _path(node: Any) -> str:
    """Return the path of a field, such as ``flow.pkts``."""
    if type(node).__name__ not in ("Column", "Dot"):
        raise ValueError(f"expected a field of the record, found {node.sql(dialect='duckdb')!r}")
    return ".".join(part.name for part in node.parts)


def _literal(node: Any) -> str | Decimal:
    """Return a text or number; true and false are texts of JSON."""
    kind = type(node).__name__
    if kind == "Neg":
        number = _literal(node.this)
        if isinstance(number, Decimal):
            return -number
    if kind == "Boolean":
        return str(node.this).lower()
    if kind == "Literal":
        return str(node.this) if node.is_string else Decimal(node.this)
    raise ValueError(f"expected a text or number, found {node.sql(dialect='duckdb')!r}")


def fields_of(of: Condition) -> set[str]:
    """Return the paths of the fields that a condition reads."""
    return set().union(*map(fields_of, of[1:])) if of[0] in ("AND", "OR", "NOT") else {of[1]}


def _checked(where: str) -> str:
    condition(where)
    return where


Where = Annotated[str, AfterValidator(_checked)]

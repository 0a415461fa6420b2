"""Queries whose results were made by an earlier evaluation of their conditions, where that found other rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lakehouse.home.open_tables import open_table
from lakehouse.home.query_meaning import EVALUATION, read_evaluation
from lakehouse.home.table_log import newest_version
from lakehouse.queries.language.text import DIALECT

if TYPE_CHECKING:
    from sqlglot import exp

    from lakehouse.home.layout import Home
    from lakehouse.queries.kind import Query

_COMPARED = ("EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ", "In", "Between")


def evaluated_before(layout: Home, query: Query) -> str | None:
    """Return the first condition that an earlier evaluation, which made results of the query, took for another."""
    if read_evaluation(layout.batch_manifests(query.name)) in (None, EVALUATION):
        return None
    return next(
        (found for stream, text in _conditions(query) for found in _other(layout, stream, text)), None
    )


def _conditions(query: Query) -> Iterator[tuple[str | None, str]]:
    """Yield the conditions of a query, without calls of predicates, each with its stream; HAVING has none."""
    for side in query.sides:
        if side.where:
            yield side.stream, side.where
    for number, scan in query.row_scans().items():
        yield from ((query.streams[number], each.text) for each in scan.conjuncts if not each.call)
    if having := getattr(query, "having", None):
        yield None, having


def _other(layout: Home, stream: str | None, text: str) -> Iterator[str]:
    from sqlglot import exp, parse_one

    tree = parse_one(text, dialect=DIALECT)
    negated = [node for node in tree.find_all(exp.Like, exp.ILike) if node.args.get("negate")]
    yield from (node.sql(DIALECT) for node in negated)
    fine = [node for node in tree.walk() if type(node).__name__ in _COMPARED and _digits(node)]
    scales = _scales(layout, stream) if fine and stream else {}
    for node in fine:
        if any(scales.get(column.name, 38) < _digits(node) for column in node.find_all(exp.Column)):
            yield node.sql(DIALECT)


def _digits(node: exp.Expr) -> int:
    """Return the most digits behind the point of the literals in a condition."""
    from sqlglot import exp

    numbers = [str(each.this) for each in node.find_all(exp.Literal) if not each.is_string]
    return max((len(text.partition(".")[2]) for text in numbers if "e" not in text.lower()), default=0)


def _scales(layout: Home, stream: str) -> Mapping[str, int]:
    """Return the digits behind the point of the decimal columns of a stream's raw rows."""
    if newest_version(layout.raw(stream)) is None:
        return {}
    types = {
        field.name: str(field.type.type)
        for field in open_table(layout.raw(stream)).schema().fields
        if hasattr(field.type, "type")
    }
    return {
        name: int(kind.rpartition(",")[2].rstrip(")")) for name, kind in types.items() if "decimal" in kind
    }

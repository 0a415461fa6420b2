"""One condition on one side of a query, read: a comparison, or the call of a predicate of the operator's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.queries.language.filters import check_filter, filter_sql
from lakehouse.queries.language.names import Names, Read, offset_of
from lakehouse.queries.language.predicates import NoPredicate, find_predicate
from lakehouse.queries.language.row_conditions import Conjunct, PythonCall
from lakehouse.queries.language.text import DIALECT

if TYPE_CHECKING:
    from sqlglot import exp

_ALONE = "the call of a predicate that stands by itself between ANDs"


def is_distance(node: exp.Expr) -> bool:
    """Tell the DISTANCE of a join of pairs, which SQL does not know either."""
    return type(node).__name__ == "Anonymous" and node.name.upper() == "DISTANCE"


def call_in(node: exp.Expr) -> exp.Anonymous | None:
    """Return the call of a predicate that a condition is or has within; None for none."""
    from sqlglot import exp

    return next((each for each in node.find_all(exp.Anonymous) if not is_distance(each)), None)


def read_condition(node: exp.Expr, names: Names, predicates: Path | None) -> tuple[int, Conjunct] | None:
    """Return a condition with the number of its side; None, with the reason noted, where it cannot be run.

    Comparisons must be known to read no more than one side; calls are looked at here. ``predicates``: the folder of the
    operator's own ones.
    """
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return _call(node, names, predicates)
    if nested := call_in(node):
        names.faults.add(offset_of(nested), f"{_spelling(nested)} within a condition", _ALONE)
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


def _call(node: exp.Anonymous, names: Names, predicates: Path | None) -> tuple[int, Conjunct] | None:
    reads = list(_arguments(node, names))
    offset, name = offset_of(node), node.name.lower()
    try:
        predicate = find_predicate(predicates, name)
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
        found = f"{_spelling(node)}, which reads columns of several streams"
        names.faults.add(offset, found, "columns of one stream: a predicate is asked about one row")
        return None
    columns = tuple(read.name for read in reads)
    call = PythonCall(name, predicate.path, predicate.by_row)
    return reads[0].side, Conjunct(f"{name}({', '.join(columns)})", columns, call)


def _arguments(node: exp.Anonymous, names: Names) -> Iterator[Read]:
    """Yield the columns that a call is given; what is none is noted."""
    from sqlglot import exp

    for each in node.expressions:
        if not isinstance(each, exp.Column):
            names.faults.add(offset_of(each), _spelling(each), "a plain column")
        elif read := names.read(each):
            yield read


def _spelling(node: exp.Expr) -> str:
    # A predicate's name is told as it is written: SQL's own would be capitals.
    return node.sql(DIALECT, comments=False, normalize_functions=False)

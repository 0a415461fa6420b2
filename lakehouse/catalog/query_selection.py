"""A SELECT over one stream, read into the selection that it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.catalog.predicates import NoPredicate, find_predicate
from lakehouse.catalog.query_conditions import conjuncts
from lakehouse.catalog.query_faults import Faults
from lakehouse.catalog.query_filters import check_filter, filter_sql
from lakehouse.catalog.query_names import Names, offset_of
from lakehouse.catalog.query_outputs import read_outputs
from lakehouse.catalog.query_text import DIALECT, Parts, description_of
from lakehouse.catalog.query_tree import sources_of, tables_of
from lakehouse.catalog.selection_query import DEADLINE_US, Conjunct, PythonCall, Selected, SelectionQuery
from lakehouse.catalog.stream import Stream

if TYPE_CHECKING:
    from sqlglot import exp

# What a table of selected rows has beside the query's own columns and RESERVED, stored and published.
SELECTED_COLUMNS = frozenset({"row_id", "event_at"})
_ALONE = "the call of a predicate that stands by itself between ANDs"


def read_selection(
    name: str,
    parts: Parts,
    tree: exp.Select,
    streams: Mapping[str, Stream],
    predicates: Path | None,
    faults: Faults,
) -> SelectionQuery | None:
    """Return the selection that a SELECT asks for; None, with every reason noted, where it cannot be run.

    ``predicates``: the folder of the operator's own ones.
    """
    tables = tables_of(tree, (), faults)
    where = tree.args.get("where")
    if where is None:
        faults.add(parts.clauses.end, "no WHERE", "WHERE and the conditions by which rows are selected")
    sources = sources_of(tables, streams, 1, "one stream", faults)
    if sources is None:
        return None
    names = Names(sources, faults)
    outputs = read_outputs(tree, names, SELECTED_COLUMNS)
    found = [_conjunct(node, names, predicates) for node in conjuncts(where.this if where else None)]
    if faults.found:
        return None
    return SelectionQuery(
        name=name,
        text=parts.text,
        description=description_of(parts.text),
        sides=(Selected(sources[0].stream, sources[0].alias),),
        conjuncts=tuple({each.text: each for each in found if each}.values()),
        outputs=outputs,
        deadline_us=parts.clauses.us("DEADLINE") or DEADLINE_US,
    )


def _conjunct(node: exp.Expr, names: Names, predicates: Path | None) -> Conjunct | None:
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return _call(node, names, predicates)
    if nested := node.find(exp.Anonymous):
        names.faults.add(offset_of(nested), f"{nested.sql(DIALECT)} within a condition", _ALONE)
        return None
    reads = [names.read(column) for column in node.find_all(exp.Column)]
    if None in reads:
        return None
    if not reads:
        names.faults.add(offset_of(node), "a condition that reads no column", "a condition on the stream")
        return None
    if not check_filter(node, names):
        return None
    return Conjunct(filter_sql(node), tuple(sorted({read.name for read in reads if read})))


def _call(node: exp.Anonymous, names: Names, predicates: Path | None) -> Conjunct | None:
    columns = list(_arguments(node, names))
    offset, name = offset_of(node), node.name.lower()
    try:
        predicate = find_predicate(predicates, name)
        predicate.require(len(node.expressions))
    except NoPredicate as error:
        names.faults.add(offset, error.reason, error.expected)
        return None
    if len(columns) < len(node.expressions):
        return None
    if not columns:
        names.faults.add(offset, f"{name}() without a column", "the columns that it reads")
        return None
    call = PythonCall(name, predicate.path, predicate.by_row)
    return Conjunct(f"{name}({', '.join(columns)})", tuple(columns), call)


def _arguments(node: exp.Anonymous, names: Names) -> Iterator[str]:
    """Yield the columns that a call is given; what is none is noted."""
    from sqlglot import exp

    for each in node.expressions:
        if not isinstance(each, exp.Column):
            names.faults.add(offset_of(each), each.sql(DIALECT), "a plain column")
        elif read := names.read(each):
            yield read.name

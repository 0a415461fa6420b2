"""A SELECT over one stream, read into the selection that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.declare.stream import Stream
from lakehouse.queries.language.calls import read_condition
from lakehouse.queries.language.conditions import conjuncts
from lakehouse.queries.language.faults import Faults
from lakehouse.queries.language.names import Names
from lakehouse.queries.language.outputs import read_outputs
from lakehouse.queries.language.text import Parts, description_of
from lakehouse.queries.language.tree import sources_of, tables_of
from lakehouse.queries.selection.query import DEADLINE_US, Selected, SelectionQuery

if TYPE_CHECKING:
    from sqlglot import exp

# What a table of selected rows has beside the query's own columns and RESERVED, stored and published.
SELECTED_COLUMNS = frozenset({"row_id", "event_at"})


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
    found = [read_condition(node, names, predicates) for node in conjuncts(where.this if where else None)]
    if faults.found:
        return None
    return SelectionQuery(
        name=name,
        text=parts.text,
        description=description_of(parts.text),
        sides=(Selected(sources[0].stream, sources[0].alias),),
        conjuncts=tuple({each.text: each for _, each in filter(None, found)}.values()),
        outputs=outputs,
        deadline_us=parts.clauses.us("DEADLINE") or DEADLINE_US,
    )

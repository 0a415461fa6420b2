"""A SELECT over one stream, read into the selection that it asks for."""

from lakehouse.queries.kind import DEADLINE_US, Side
from lakehouse.queries.language.conditions import conjuncts
from lakehouse.queries.language.filters import read_condition
from lakehouse.queries.language.text import Grammar, duration
from lakehouse.queries.language.tree import ONE_STREAM, Asked, Names, read_outputs, sources_of, tables_of
from lakehouse.queries.selection.query import SelectionQuery

# What a table of selected rows has beside the query's own columns and RESERVED, stored and published.
SELECTED_COLUMNS = frozenset({"row_id", "event_at"})


GRAMMAR = Grammar(
    "a selection",
    ONE_STREAM,
    {"DEADLINE": duration},
    dict.fromkeys(
        ("RECALL", "EVERY", "IDLE", "AHEAD", "POLICY", "SLACK", "METHOD", "ALARM"),
        "DEADLINE or nothing: each row alone decides, whenever it comes",
    ),
)


def read(asked: Asked) -> SelectionQuery | None:
    """Return the selection that a SELECT asks for; None, with every reason noted, where it cannot be run."""
    parts, tree, streams, faults = asked.parts, asked.tree, asked.streams, asked.faults
    tables = tables_of(tree, (), faults)
    where = tree.args.get("where")
    if where is None:
        faults.add(parts.clauses.end, "no WHERE", "WHERE and the conditions by which rows are selected")
    sources = sources_of(tables, streams, 1, "one stream", faults)
    if sources is None:
        return None
    names = Names(sources, faults)
    outputs = read_outputs(tree, names, SELECTED_COLUMNS)
    found = [
        read_condition(node, names, asked.predicates) for node in conjuncts(where.this if where else None)
    ]
    if faults.found:
        return None
    return SelectionQuery(
        **asked.named,
        sides=(Side(sources[0].stream, sources[0].alias),),
        conjuncts=tuple({each.text: each for _, each in filter(None, found)}.values()),
        outputs=outputs,
        deadline_us=parts.clauses.us("DEADLINE") or DEADLINE_US,
    )

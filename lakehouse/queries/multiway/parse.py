"""A SELECT over three to eight streams, read into the join that it asks for."""

from collections.abc import Sequence

from sqlglot import exp

from lakehouse.queries.kind import of_side
from lakehouse.queries.language.attributes import Attribute, attributes_of, check_connected, read_filters
from lakehouse.queries.language.recall import recall, spare, stated
from lakehouse.queries.language.text import Grammar, duration, duration_or_zero, one_of
from lakehouse.queries.language.tree import (
    MORE_STREAMS,
    Asked,
    Names,
    check_ahead,
    clauses_on,
    offset_of,
    own_windows,
    read_outputs,
    sources_of,
    tables_of,
)
from lakehouse.queries.multiway.query import MultiwayQuery, Windowed

MOST_STREAMS = 8
# What a table of results has beside the query's own columns and RESERVED, where it is stored and where it is published.
RESULT_COLUMNS = frozenset(
    {"times_us", "row_ids", "row_files", "row_lines", "row_items", "found", "event_at"}
)


GRAMMAR = Grammar(
    "a join of three streams or more",
    MORE_STREAMS,
    {
        "SLACK": duration_or_zero,
        "RECALL": recall,
        "EVERY": duration,
        "SPARE": spare,
        "IDLE": duration,
        "AHEAD": duration,
        "ROUTING": one_of(("SMJE", "SMJH")),
    },
    {
        "METHOD": "no METHOD: results are found in one way",
        "POLICY": "no POLICY: RECALL chooses the slack that past results needed",
        "ALARM": "no ALARM: groups that HAVING lets through raise alarms",
        "DEADLINE": "no DEADLINE: selections alone are run in slices of time",
    },
)


def read(asked: Asked) -> MultiwayQuery | None:
    """Return the join that a SELECT asks for; None, with every reason noted, where it cannot be run."""
    parts, tree, streams, faults = asked.parts, asked.tree, asked.streams, asked.faults
    tables = tables_of(tree, (), faults)
    sources = sources_of(
        tables, streams, MOST_STREAMS, "three to eight streams, or one several times", faults
    )
    if sources is None:
        return None
    check_ahead(parts.clauses, sources, streams, faults)
    windows = own_windows(tables, parts, faults)
    names = Names(sources, faults)
    count = len(faults.found)
    filters = read_filters(clauses_on(tree), names, asked.predicates)
    attributes = sorted(attributes_of(names), key=lambda each: sorted(each.items()))
    if count == len(faults.found):
        _check_attributes(attributes, tables, names)
    outputs = read_outputs(tree, names, RESULT_COLUMNS)
    asked_for = stated(parts.clauses, faults, "SLACK", ("EVERY", "SPARE"))
    if faults.found:
        return None
    return MultiwayQuery(
        **(asked.named | asked_for),
        sides=tuple(
            Windowed(
                source.stream,
                source.alias,
                windows[side],
                tuple(each[side] for each in attributes),
                **of_side(filters[side]),
            )
            for side, source in enumerate(sources)
        ),
        outputs=outputs,
        slack_us=parts.clauses.us("SLACK") or 0,
        idle_us=parts.clauses.us("IDLE"),
        ahead_us=parts.clauses.us("AHEAD"),
        routing="smjh" if parts.clauses.words.get("ROUTING") == "SMJH" else "smje",
    )


def _check_attributes(attributes: Sequence[Attribute], tables: Sequence[exp.Expr], names: Names) -> None:
    """Note what keeps rows of all streams from being found by one key: an attribute that a side lacks."""
    offsets = [offset_of(table) for table in tables]
    count = len(names.faults.found)
    check_connected(attributes, offsets, names)
    if count < len(names.faults.found):
        return
    for attribute in attributes:
        for side in range(len(tables)):
            if side not in attribute:
                first = min(attribute)
                column = f"{names.sources[first].alias}.{attribute[first]}"
                alias = names.sources[side].alias
                expected = f"a column of {alias} that equals it too: rows of all streams are found by one key"
                names.faults.add(offsets[side], f"{column}, which no column of {alias} equals", expected)

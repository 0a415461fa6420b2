"""A SELECT of aggregates over joined streams, read into the query that keeps them current."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from lakehouse.queries.aggregate.canonical_form import Draft, in_one_form
from lakehouse.queries.aggregate.parse_answers import Answers
from lakehouse.queries.aggregate.query import AggregateQuery, Method
from lakehouse.queries.aggregate.shape import shape_of
from lakehouse.queries.language.attributes import attributes_of, check_connected, read_filters
from lakehouse.queries.language.names import Names, offset_of
from lakehouse.queries.language.text import (
    Clauses,
    Grammar,
    duration,
    duration_or_zero,
    nothing_more,
    one_of,
)
from lakehouse.queries.language.tokens import Faults
from lakehouse.queries.language.tree import (
    AGGREGATES,
    Asked,
    check_ahead,
    clauses_on,
    own_windows,
    sources_of,
    tables_of,
)

if TYPE_CHECKING:
    from sqlglot import exp

MOST_STREAMS = 6


GRAMMAR = Grammar(
    "an aggregate",
    AGGREGATES,
    {
        "EVERY": duration,
        "SLACK": duration_or_zero,
        "IDLE": duration,
        "AHEAD": duration,
        "METHOD": one_of(tuple(method.upper() for method in get_args(Method))),
        "ALARM": nothing_more,
    },
    {
        "RECALL": "no RECALL: the answer at a tick is exact",
        "POLICY": "no POLICY: slack is what SLACK says",
        "DEADLINE": "no DEADLINE: selections alone are run in slices of time",
    },
    ("EVERY", "EVERY <interval>, how far ticks are apart, such as EVERY 1 MINUTE"),
)


def read(asked: Asked) -> AggregateQuery | None:
    """Return the aggregates that a SELECT asks for; None, with every reason noted, where they cannot be run."""
    parts, tree, streams, faults = asked.parts, asked.tree, asked.streams, asked.faults
    _check_alarm(parts.clauses, tree, faults)
    tables = tables_of(tree, ("group", "having"), faults)
    sources = sources_of(tables, streams, MOST_STREAMS, "two to six streams, or one several times", faults)
    if sources is None:
        return None
    check_ahead(parts.clauses, sources, streams, faults)
    windows = own_windows(tables, parts, faults)
    names = Names(sources, faults)
    count = len(faults.found)
    filters = read_filters(clauses_on(tree), names, asked.predicates)
    attributes = attributes_of(names)
    if count == len(faults.found):
        check_connected(attributes, [offset_of(table) for table in tables], names)
    answers = Answers(tree, names)
    if faults.found:
        return None
    query = in_one_form(Draft(asked, sources, windows, filters, attributes, answers))
    return _with_method(query, parts.clauses, faults)


def _check_alarm(clauses: Clauses, tree: exp.Select, faults: Faults) -> None:
    if "ALARM" in clauses.places and not tree.args.get("having"):
        expected = "HAVING, which says for which groups the alarm is raised"
        faults.add(clauses.places["ALARM"], "ALARM without HAVING", expected)


def _with_method(query: AggregateQuery, clauses: Clauses, faults: Faults) -> AggregateQuery:
    """Return the query with the method that METHOD names, or else the one that costs least."""
    from lakehouse.algorithms.join_aggregate.choice import cheapest, methods_for

    shape = shape_of(query)
    if "METHOD" not in clauses.words:
        name, why = cheapest(shape)
        return replace(query, method=_method(name), why=why)
    why_not = dict(methods_for(shape))
    method = _method(clauses.words["METHOD"].lower())
    if why_not[method]:
        able = ", ".join(name.upper() for name, reason in why_not.items() if reason is None)
        found = f"METHOD {clauses.words['METHOD']}, but {why_not[method]}"
        faults.add(clauses.places["METHOD"], found, f"one of {able}")
    return replace(query, method=method, is_forced=True, why="METHOD asks for it")


def _method(name: str) -> Method:
    return next(method for method in get_args(Method) if method == name)

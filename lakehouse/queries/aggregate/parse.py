"""A SELECT of aggregates over joined streams, read into the query that keeps them current.

Aggregates that mean the same get one form, so that what is kept for a query fits it after a rewording: what SQL leaves
open is put in order, which is sides, join attributes, values, and the aggregates that only HAVING reads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby, permutations, product
from typing import Any, get_args

from sqlglot import exp

from lakehouse.queries.aggregate.parse_answers import HIDDEN, Answers, Call
from lakehouse.queries.aggregate.query import AggregateQuery, Input, Measure, Method, methods_of, shape_of
from lakehouse.queries.kind import Conjunct, Output, in_one_order, of_side
from lakehouse.queries.language.attributes import Attribute, attributes_of, check_connected, read_filters
from lakehouse.queries.language.filters import filter_sql
from lakehouse.queries.language.recall import recall, stated
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
    Names,
    Place,
    Source,
    check_ahead,
    clauses_on,
    offset_of,
    own_windows,
    sources_of,
    tables_of,
)

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
        "RECALL": recall,
    },
    {
        "POLICY": "no POLICY: slack is what SLACK says, and RECALL chooses how long ticks wait",
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
    asked_for = stated(parts.clauses, faults)
    if faults.found:
        return None
    recalled = asked_for["recall"], asked_for.get("period_us")
    query = in_one_form(Draft(asked, sources, windows, filters, attributes, answers, *recalled))
    return _with_method(query, parts.clauses, faults)


def _check_alarm(clauses: Clauses, tree: exp.Select, faults: Faults) -> None:
    if "ALARM" in clauses.places and not tree.args.get("having"):
        expected = "HAVING, which says for which groups the alarm is raised"
        faults.add(clauses.places["ALARM"], "ALARM without HAVING", expected)


def _with_method(query: AggregateQuery, clauses: Clauses, faults: Faults) -> AggregateQuery:
    """Return the query with the method that METHOD names, or else the one that costs least."""
    from lakehouse.algorithms.join_aggregate.choice import cheapest

    if "METHOD" not in clauses.words:
        name, why = cheapest(shape_of(query), query.slack_us)
        return replace(query, method=_method(name), why=why)
    why_not = dict(methods_of(query))
    method = _method(clauses.words["METHOD"].lower())
    if why_not[method]:
        able = ", ".join(name.upper() for name, reason in why_not.items() if reason is None)
        found = f"METHOD {clauses.words['METHOD']}, but {why_not[method]}"
        faults.add(clauses.places["METHOD"], found, f"one of {able}")
    return replace(query, method=method, is_forced=True, why="METHOD asks for it")


def _method(name: str) -> Method:
    return next(method for method in get_args(Method) if method == name)


@dataclass(frozen=True)
class Draft:
    """A query as it is written: all by side, in the order of FROM."""

    asked: Asked
    sources: tuple[Source, ...]
    windows: tuple[int, ...]
    filters: list[tuple[Conjunct, ...]]
    attributes: list[Attribute]
    answers: Answers
    recall: float | None
    period_us: int | None


def in_one_form(draft: Draft) -> AggregateQuery:
    """Return the query whose definition is least, among all orders of sides that nothing tells apart.

    Cost: one query for each; more than one only where a stream joins itself under the same window and conditions.
    """
    return min((_Ordered(draft, order).query() for order in _orders(draft)), key=AggregateQuery.definition)


def _orders(draft: Draft) -> Iterator[tuple[int, ...]]:
    told = partial(_told, draft)
    alike = [list(sides) for _, sides in groupby(sorted(range(len(draft.sources)), key=told), key=told)]
    for parts in product(*(permutations(sides) for sides in alike)):
        yield tuple(chain(*parts))


def _told(draft: Draft, side: int) -> tuple[Any, ...]:
    """Return what tells a side apart, whatever the order and the aliases."""
    source, calls = draft.sources[side], {*draft.answers.measures.values(), *draft.answers.hidden()}
    keys = sorted(each[side] for each in draft.attributes if side in each)
    values = sorted((call.function, call.value) for call in calls if call.side == side and call.value)
    return source.stream, draft.windows[side], in_one_order(draft.filters[side]) or "", keys, values


class _Ordered:
    """A draft with its sides in an order."""

    def __init__(self, draft: Draft, order: tuple[int, ...]) -> None:
        self.draft, self.order = draft, order
        self.answers = draft.answers
        self.place_of = {side: place for place, side in enumerate(order)}
        hidden = sorted(self.answers.hidden(), key=self._moved)
        self.names = {call: f"{HIDDEN}{number}" for number, call in enumerate(hidden, 1)}
        self.calls = self.answers.measures | {name: call for call, name in self.names.items()}
        self.names |= {call: name for name, call in reversed(self.answers.measures.items())}

    def query(self) -> AggregateQuery:
        draft, clauses = self.draft, self.draft.asked.parts.clauses
        having = sorted(filter_sql(node, self._name_of) for node in self.answers.having)
        return AggregateQuery(
            **draft.asked.named,
            sides=tuple(map(self._side, self.order)),
            groups=tuple(Output(name, *self._first(each)) for name, each in self.answers.groups.items()),
            measures=tuple(self._measure(name, call) for name, call in self.calls.items()),
            having=" AND ".join(having) or None,
            every_us=clauses.us("EVERY") or 0,
            slack_us=clauses.us("SLACK") or 0,
            idle_us=clauses.us("IDLE"),
            ahead_us=clauses.us("AHEAD"),
            method="multiway",
            is_forced=False,
            why="",
            is_alarm="ALARM" in clauses.places,
            recall=draft.recall,
            period_us=draft.period_us,
        )

    def _side(self, side: int) -> Input:
        draft = self.draft
        attributes = sorted(draft.attributes, key=lambda each: sorted(map(self._at, each.items())))
        return Input(
            stream=draft.sources[side].stream,
            alias=draft.sources[side].alias,
            window_us=draft.windows[side],
            keys=tuple((number, each[side]) for number, each in enumerate(attributes) if side in each),
            values=self._values(side),
            **of_side(draft.filters[side]),
        )

    def _values(self, side: int) -> tuple[str, ...]:
        return tuple(sorted({call.value for call in self.calls.values() if call.side == side and call.value}))

    def _measure(self, name: str, call: Call) -> Measure:
        value = None if call.value is None else self._values(call.side).index(call.value)
        is_shown = name in self.answers.measures
        return Measure(name, call.function, self._moved(call).side, value, is_shown)

    def _at(self, place: Place) -> Place:
        return self.place_of[place[0]], place[1]

    def _first(self, place: Place) -> Place:
        """Return the first of the columns that are equal to one: whichever is named, the group is the same."""
        return min(map(self._at, self.answers.names.equated.class_of(place)))

    def _moved(self, call: Call) -> Call:
        # COUNT(*) is of no side.
        return call if call.value is None else Call(call.function, self.place_of[call.side], call.value)

    def _name_of(self, node: exp.Expr) -> str:
        meant = self.answers.meaning(node)
        return self.names[meant] if isinstance(meant, Call) else str(meant)

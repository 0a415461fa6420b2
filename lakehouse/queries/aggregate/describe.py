"""What a registered join-aggregate does, in words: its windows, what joins, what is answered when, by which method."""

from __future__ import annotations

import re

from lakehouse.declare.durations import format_duration
from lakehouse.queries.aggregate.query import AggregateQuery, Measure
from lakehouse.queries.aggregate.shape import shape_of
from lakehouse.queries.kind import clock_in_words

_NUMBER = re.compile(r"CAST\((.*) AS DOUBLE\)")
_PRESENCE = re.compile(r"CASE WHEN NOT (`[^`]+`) IS NULL THEN CAST\(1 AS DOUBLE\) END")
_COLUMN_AS_NUMBER = re.compile(r"CAST\((`[^`]+`) AS DOUBLE\)")
_COLUMN = re.compile(r"`([^`]+)`")


def equalities_in_words(query: AggregateQuery) -> str:
    """Return which columns must be equal for rows to join, attribute by attribute."""
    return " and ".join(_equal(query, number) for number in _attributes(query))


def measure_in_words(query: AggregateQuery, measure: Measure) -> str:
    """Return an aggregate as it could be written."""
    if measure.value is None:
        return f"{measure.function}(*)"
    side = query.sides[measure.side]
    value = side.values[measure.value]
    if found := _PRESENCE.fullmatch(value) or _NUMBER.fullmatch(value):
        value = found[1]
    value = _COLUMN_AS_NUMBER.sub(r"\1", value)
    return f"{measure.function}({_COLUMN.sub(lambda name: f'{side.alias}.{name[1]}', value)})"


def groups_in_words(query: AggregateQuery) -> str:
    """Return the columns of GROUP BY under the names of the answers; all results are one group without any."""
    columns = [(each.name, f"{query.sides[each.side].alias}.{each.column}") for each in query.groups]
    return (
        ", ".join(
            column if column.endswith(f".{name}") else f"{column} as {name}" for name, column in columns
        )
        or "none: one answer at each tick"
    )


def shown_in_words(query: AggregateQuery) -> str:
    """Return what is answered for each group."""
    shown = [(each.name, measure_in_words(query, each)) for each in query.measures if each.is_shown]
    return ", ".join(f"{name} = {words}" for name, words in shown) or "the groups alone"


def having_in_words(query: AggregateQuery) -> str:
    """Return which answers HAVING lets through, its own aggregates written out."""
    hidden = {each.name: measure_in_words(query, each) for each in query.measures if not each.is_shown}
    return _COLUMN.sub(lambda name: hidden.get(name[1], name[1]), query.having or "") or "all answers"


def ticks_in_words(query: AggregateQuery) -> str:
    """Return when answers are given, which streams they wait for, and which clocks are not believed."""
    clock = clock_in_words(query.idle_us, query.ahead_us)
    return f"every {format_duration(query.every_us)}, once all streams have passed it; {clock}"


def slack_in_words(query: AggregateQuery) -> str:
    """Return what becomes of late rows."""
    if not query.slack_us:
        return "none: every late row waits for the repair"
    reach = f"up to {format_duration(query.slack_us)} behind the last tick"
    return f"late rows revise answers {reach} at once; what is older waits for the repair"


def method_in_words(query: AggregateQuery) -> str:
    """Return what runs a query, and why."""
    return f"{query.method}: {query.why}"


def other_methods_in_words(query: AggregateQuery) -> str:
    """Return what else could run a query, and what could not for which reason."""
    others = [(name, why_not) for name, why_not in methods_of(query) if name != query.method]
    able = ", ".join(name for name, why_not in others if why_not is None)
    unable = [f"not {name}: {why_not}" for name, why_not in others if why_not]
    return "; ".join([f"{able or 'nothing else'} could run it too", *unable])


def methods_of(query: AggregateQuery) -> tuple[tuple[str, str | None], ...]:
    """Return every method with the reason why it cannot run a query, None if it can; the cheapest first."""
    from lakehouse.algorithms.join_aggregate.choice import methods_for

    return methods_for(shape_of(query))


def spread_in_words(query: AggregateQuery, number: str) -> str:
    """Return how rows are spread over buckets, of which there is a ``number`` in words."""
    shared = query.bucketed_by
    if not shared:
        return "1: no column is common to all streams, so all rows are in one"
    return f"{number}, by hash of {' and '.join(_equal(query, number) for number in shared)}"


def _attributes(query: AggregateQuery) -> list[int]:
    return sorted({number for side in query.sides for number, _ in side.keys})


def _equal(query: AggregateQuery, attribute: int) -> str:
    columns = [
        f"{side.alias}.{column}"
        for side in query.sides
        for number, column in side.keys
        if number == attribute
    ]
    return " = ".join(columns)

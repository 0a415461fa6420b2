"""An aggregate query as methods see it: its shape, and where in it a measure's figures are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.queries.aggregate.query import AggregateQuery, Measure

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Aggregate, Shape


def shape_of(query: AggregateQuery) -> Shape:
    """Return what a query is to a method; its aggregates do not depend on the order of SELECT."""
    from lakehouse.algorithms.join_aggregate.contract import Shape

    grouped = {group.side for group in query.groups}
    return Shape(
        attributes=tuple(tuple(number for number, _ in side.keys) for side in query.sides),
        grouped=tuple(side in grouped for side in range(len(query.sides))),
        aggregates=tuple(_aggregates(query)),
    )


def places_of(query: AggregateQuery) -> tuple[int | None, ...]:
    """Return for every measure which of the shape's aggregates has its figures; None for COUNT(*), which none has."""
    aggregates = _aggregates(query)
    found = [_aggregate(measure) for measure in query.measures]
    return tuple(None if each is None else aggregates.index(each) for each in found)


def _aggregates(query: AggregateQuery) -> list[Aggregate]:
    found = {each for measure in query.measures if (each := _aggregate(measure))}
    return sorted(found, key=lambda each: (each.side, each.column, each.function))


def _aggregate(measure: Measure) -> Aggregate | None:
    from lakehouse.algorithms.join_aggregate.contract import Aggregate

    if measure.value is None:
        return None
    # An average is a sum, beside which every partial has how many values are in it.
    function = "sum" if measure.function == "avg" else measure.function
    return Aggregate(function, measure.side, measure.value)

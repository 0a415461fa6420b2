from __future__ import annotations

from lakehouse.algorithms.join_aggregate.contract import Aggregate, Shape
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.shape import places_of, shape_of
from tests.queries.declared_streams import aggregate_of, stream_of

STREAMS = {name: stream_of(name=name, columns={"x": "int", "y": "double", "k": "string"}) for name in "abc"}
FROM = "FROM a [1 HOUR], b [1 HOUR], c [1 DAY] WHERE a.device = b.device AND b.k = c.k"


def _asked(select: str, more: str = "") -> AggregateQuery:
    return aggregate_of("asked", f"SELECT {select} {FROM} {more} EVERY 1 MINUTE", STREAMS)


def test_a_shape_has_the_attributes_and_groups_of_each_side() -> None:
    query = _asked("b.room, COUNT(*)", "GROUP BY b.room")

    assert shape_of(query) == Shape(((0,), (0, 1), (1,)), (False, True, False))
    assert places_of(query) == (None,)


def test_a_group_of_equal_columns_is_of_one_side_only() -> None:
    assert shape_of(_asked("c.k, COUNT(*)", "GROUP BY b.k, c.k")).grouped == (False, True, False)


def test_measures_share_aggregates_and_an_average_is_a_sum() -> None:
    query = _asked("AVG(a.y), COUNT(*), SUM(a.y) AS s, COUNT(a.y), MAX(c.x), SUM(a.x)", "HAVING SUM(a.y) > 3")

    assert shape_of(query).aggregates == (
        Aggregate("sum", 0, 0),
        Aggregate("count", 0, 1),
        Aggregate("sum", 0, 1),
        Aggregate("max", 2, 0),
    )
    assert places_of(query) == (2, None, 2, 1, 3, 0)


def test_aggregates_do_not_depend_on_the_order_of_select() -> None:
    one, two = _asked("MIN(a.y), MAX(b.x)", "HAVING SUM(c.x) > 1"), _asked("MAX(b.x), MIN(a.y), SUM(c.x)")

    assert shape_of(one) == shape_of(two)
    assert (places_of(one), places_of(two)) == ((0, 1, 2), (1, 0, 2))

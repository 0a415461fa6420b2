from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from lakehouse.algorithms.join_aggregate.choice import METHODS, build, cheapest, methods_for
from lakehouse.algorithms.join_aggregate.contract import Aggregate, Rows, Shape
from tests.algorithms.join_aggregate.streams import shapes

ONE_KEY = Shape(((0, 1), (1, 0)), (False, True), (Aggregate("sum", 0, 0),))
EXTREMES = Shape(((0,), (0,)), (False, False), (Aggregate("min", 0, 0), Aggregate("max", 1, 0)))
CHAIN = Shape(((0,), (0, 1), (1,)), (False,) * 3)
CIRCLE = Shape(((0, 1), (1, 2), (0, 2)), (False,) * 3)
LAST_IN_CHAIN = replace(CHAIN, aggregates=(Aggregate("max", 0, 0),))
STAR = Shape(((0,),) * 3, (False,) * 3)
BUILT = list(METHODS)


def test_two_streams_on_one_key_can_be_run_by_every_method() -> None:
    assert methods_for(ONE_KEY) == tuple((name, None) for name in METHODS)


@pytest.mark.parametrize(
    ("shape", "name", "why_not"),
    [
        (CHAIN, "factorised", "not all streams are joined on the same attributes"),
        (CHAIN, "tuple_count", "it joins two streams, this query has 3"),
        (STAR, "incremental", "it joins two streams, this query has 3"),
        (
            EXTREMES,
            "incremental",
            "it takes results away again, which works for COUNT and SUM and not for MAX and MIN",
        ),
        (STAR, "factorised", None),
        (EXTREMES, "tuple_count", None),
        (CHAIN, "view_tree", None),
        (CIRCLE, "view_tree", None),
        (CIRCLE, "multiway", None),
        (CHAIN, "multiway", None),
    ],
)
def test_a_method_that_cannot_run_a_shape_says_why(shape: Shape, name: str, why_not: str | None) -> None:
    assert dict(methods_for(shape))[name] == why_not


def test_the_cheapest_lets_no_rows_meet_where_that_can_be() -> None:
    assert cheapest(STAR)[0] == cheapest(ONE_KEY)[0] == "factorised"
    assert cheapest(CHAIN)[0] == "view_tree"
    assert (cheapest(CIRCLE)[0], cheapest(CIRCLE, 1)[0]) == ("multiway", "view_tree")
    assert cheapest(LAST_IN_CHAIN)[0] == "view_tree"


@settings(max_examples=60, deadline=None)
@given(shape=shapes())
def test_the_cheapest_where_rows_come_late_is_the_first_that_can(shape: Shape) -> None:
    can = [name for name, why_not in methods_for(shape) if why_not is None]

    assert cheapest(shape, 1)[0] == can[0]


@pytest.mark.parametrize("name", BUILT)
def test_a_method_is_built_by_its_name(name: str) -> None:
    found = build(name, ONE_KEY).advance(Rows.none(ONE_KEY), Rows.none(ONE_KEY).enter_us)

    assert type(build(name, ONE_KEY)).__name__ == METHODS[name]
    assert len(found) == 0


@pytest.mark.parametrize("name", ["tuple_count", "incremental", "factorised"])
def test_what_cannot_run_a_shape_is_not_built(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} cannot run this: .*stream"):
        build(name, CHAIN)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a method out of factorised, .*, found nested_loop"):
        build("nested_loop", ONE_KEY)

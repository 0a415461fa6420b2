"""One body for every way to choose an order; the optimum against all orders; how heuristic and baseline choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.multiway_join.contract import Legs, Ordering, Query, Sites, Trip
from lakehouse.algorithms.multiway_join.cost import legs_of, route_cost, sizes_by_set, sizes_of
from lakehouse.algorithms.multiway_join.exhaustive import MOST_STOPS, Smje
from lakehouse.algorithms.multiway_join.heuristic import (
    ROUTES,
    Smjh,
    sizes_without,
)
from tests.algorithms.multiway_join.streams import ORDERINGS, trips
from tests.oracles.multiway_join.every_order import every_order
from tests.oracles.multiway_join.lottery import Lottery

every_ordering = pytest.mark.parametrize("make", ORDERINGS.values(), ids=ORDERINGS.keys())
quick = settings(max_examples=60, deadline=None)


def cost_of(trip: Trip, ordering: Ordering) -> float:
    order = ordering.choose(trip)
    return route_cost(trip.legs, order, sizes_of(trip, order))


def random_trip(sites: int, seed: int, is_factorised: bool = False) -> Trip:
    rng = np.random.default_rng(seed)
    costs = rng.integers(1, 11, (sites, sites)) * (1 - np.eye(sites))
    query = Query(Sites.of([f"s{number}" for number in range(sites)], costs), (None,) * sites)
    counts = (1 + rng.poisson(0.4, (sites, 6))).astype(np.float64)
    return Trip(0, legs_of(query, 0), counts[0], counts[1:], is_factorised)


@pytest.mark.slow
@every_ordering
@quick
@given(trip=trips())
def test_an_order_visits_every_stop_once(make: Any, trip: Trip) -> None:
    order = make(len(trip.legs.stops) + 1).choose(trip)

    assert sorted(order.tolist()) == list(range(len(trip.legs.stops)))


@every_ordering
@quick
@given(some=st.lists(trips(most=3), max_size=5), trip=trips(most=3))
def test_a_restored_ordering_chooses_the_same(make: Any, some: list[Trip], trip: Trip) -> None:
    ordering, restored = make(3), make(3)
    for each in some:
        ordering.choose(each)

    restored.restore(ordering.snapshot())

    assert restored.choose(trip).tolist() == ordering.choose(trip).tolist()
    assert restored.snapshot() == ordering.snapshot()


@quick
@given(trip=trips(most=7))
def test_smje_is_as_cheap_as_the_cheapest_of_all_orders(trip: Trip) -> None:
    assert cost_of(trip, Smje()) == pytest.approx(min(cost for _, cost in every_order(trip)))


@pytest.mark.parametrize("is_factorised", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_smje_is_as_cheap_as_the_cheapest_of_all_orders_of_seven_sites(
    seed: int, is_factorised: bool
) -> None:
    trip = random_trip(7, seed, is_factorised)

    assert cost_of(trip, Smje()) == pytest.approx(min(cost for _, cost in every_order(trip)))


@quick
@given(trip=trips(most=7))
def test_smjh_finds_the_optimum_as_long_as_it_can_keep_every_route(trip: Trip) -> None:
    assert cost_of(trip, Smjh(ROUTES)) == pytest.approx(cost_of(trip, Smje()))


@pytest.mark.parametrize("is_factorised", [False, True])
@pytest.mark.parametrize("width", [1, 4, 64])
def test_smjh_is_never_cheaper_than_the_optimum(width: int, is_factorised: bool) -> None:
    for seed in range(20):
        trip = random_trip(9, seed, is_factorised)
        assert cost_of(trip, Smjh(width)) >= cost_of(trip, Smje()) * (1 - 1e-12)


@pytest.mark.parametrize("width", [1, ROUTES])
def test_smjh_takes_more_sites_than_smje(width: int) -> None:
    trip = random_trip(30, 0)

    assert sorted(Smjh(width).choose(trip).tolist()) == list(range(29))
    assert cost_of(trip, Smjh(width)) < cost_of(trip, ORDERINGS["fixed_order"](30))


@quick
@given(trip=trips(), data=st.data())
def test_sizes_without_each_stop_are_those_of_the_set_without_it(trip: Trip, data: st.DataObject) -> None:
    stops = len(trip.legs.stops)
    among = np.array(data.draw(st.lists(st.booleans(), min_size=stops, max_size=stops)))
    sizes = sizes_by_set(trip.block, trip.stored, trip.is_factorised)
    whole = sum(1 << int(stop) for stop in np.flatnonzero(among))

    found, total = sizes_without(trip.block, trip.stored, among, trip.is_factorised)

    assert total == sizes[whole]
    assert [found[stop] for stop in np.flatnonzero(among)] == [
        sizes[whole ^ (1 << int(stop))] for stop in np.flatnonzero(among)
    ]


def test_smje_refuses_more_sites_than_fit_in_memory() -> None:
    stops = MOST_STOPS + 1
    legs = Legs(np.arange(stops), np.ones(stops), np.ones((stops, stops)), np.zeros(stops))

    with pytest.raises(ValueError, match="at most 21 sites, found 22; use Smjh"):
        Smje().choose(Trip(0, legs, np.ones(1), np.ones((stops, 1))))


def test_no_route_to_keep_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one route, found 0"):
        Smjh(0)


def test_lottery_sends_first_where_most_of_what_it_sent_found_no_partner() -> None:
    query = Query(Sites.of("abc", [[0, 1, 1], [1, 0, 1], [1, 1, 0]]), (None,) * 3)
    stored = np.array([[3.0], [0.0]])
    lottery = Lottery(3)

    orders = [lottery.choose(Trip(0, legs_of(query, 0), np.array([10.0]), stored)).tolist() for _ in range(3)]

    # To b first, as nothing is known: 10 rows become 30, and none of 30 finds a partner at c. Then b is known to make
    # more of what it gets, and c, never tried from a, comes first: nothing is left to send to b from c.
    assert orders == [[0, 1], [1, 0], [1, 0]]


def test_lottery_learns_for_each_sender_by_itself() -> None:
    query = Query(Sites.of("abc", [[0, 1, 1], [1, 0, 1], [1, 1, 0]]), (None,) * 3)
    lottery = Lottery(3)
    from_a = Trip(0, legs_of(query, 0), np.array([10.0]), np.array([[5.0], [0.0]]))

    for _ in range(3):
        lottery.choose(from_a)
    from_c = lottery.choose(Trip(2, legs_of(query, 2), np.array([10.0]), np.array([[1.0], [1.0]])))

    assert from_c.tolist() == [0, 1]

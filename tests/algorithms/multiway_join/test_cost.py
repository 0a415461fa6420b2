from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.multiway_join.contract import Query, Sending, Sites, Trip
from lakehouse.algorithms.multiway_join.cost import legs_of, message_cost, route_cost, sizes_by_set, sizes_of
from tests.algorithms.multiway_join.streams import trips
from tests.oracles.multiway_join.every_order import every_order

quick = settings(max_examples=60, deadline=None)


@quick
@given(trip=trips())
def test_the_cost_of_each_order_is_that_of_its_definition(trip: Trip) -> None:
    for order, cost in every_order(trip):
        positions = np.array(order)
        assert route_cost(trip.legs, positions, sizes_of(trip, positions)) == pytest.approx(cost)


@quick
@given(trip=trips(), data=st.data())
def test_what_travels_depends_on_the_stops_visited_and_not_on_their_order(
    trip: Trip, data: st.DataObject
) -> None:
    sizes = sizes_by_set(trip.block, trip.stored, trip.is_factorised)
    order = np.array(data.draw(st.permutations(range(len(trip.legs.stops)))))

    along = sizes_of(trip, order)

    assert along.tolist() == [
        sizes[sum(1 << stop for stop in order[:visit])] for visit in range(len(order) + 1)
    ]


@quick
@given(trip=trips())
def test_factorised_rows_are_never_more_than_flat_ones(trip: Trip) -> None:
    flat, factorised = (sizes_by_set(trip.block, trip.stored, each) for each in (False, True))

    assert np.all(factorised <= flat)


@quick
@given(trip=trips(is_filtered=True))
def test_rows_that_passed_the_filter_only_become_more(trip: Trip) -> None:
    sizes = sizes_of(trip, np.arange(len(trip.legs.stops)))

    assert np.all(np.diff(sizes) >= 0)


def test_the_way_to_who_asks_counts_unless_the_last_stop_asks() -> None:
    sites = Sites.of("abc", [[0, 1, 10], [1, 0, 100], [10, 100, 0]])
    sizes, order = np.array([1.0, 2.0, 4.0]), np.array([0, 1])

    asked_by = {
        asker: route_cost(legs_of(Query(sites, (None,) * 3, asker), 0), order, sizes)
        for asker in (None, *"abc")
    }

    assert asked_by == {None: 201.0, "a": 241.0, "b": 601.0, "c": 201.0}


def test_messages_cost_their_entries_on_the_way_they_take() -> None:
    sending = Sending(entry=0.5, hop=0.25, bit=0.125)

    cost = message_cost(sending, announced=8, passed=2, stops=3, ways=(10.0, 100.0))

    assert (cost.synopsis, cost.filter, cost.order) == (40.0, 100.0, 75.0)


def test_a_compact_filter_is_a_bit_for_each_entry_announced_or_what_passes_if_that_is_less() -> None:
    sending = Sending(entry=1.0, bit=0.125, is_compact=True)

    filters = [message_cost(sending, 8, passed, stops=0, ways=(10.0, 100.0)).filter for passed in (0, 2)]

    assert filters == [0.0, 100.0]


def test_who_does_not_filter_sends_no_filter() -> None:
    assert message_cost(Sending(filters=False), 8, 8, 3, (10.0, 100.0)).filter == 0.0

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.scheduling.contract import Chain, Discipline, Join, Operator, Query
from lakehouse.algorithms.scheduling.flow import flow
from lakehouse.algorithms.scheduling.multifactor import MultiFactor, priorities, round_of, slices_us
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policy import first_plan
from tests.algorithms.scheduling.workloads import filters, measured, one_stream

T = 600_000
OPERATORS = st.lists(st.tuples(st.floats(10.0, 1e4), st.floats(0.05, 1.0)), min_size=1, max_size=6)


def test_priorities_of_one_stream_are_1_to_3() -> None:
    """n = 1000, 800, 500; S = 0.4, 0.5, 0.9; V = 100: 600, 400 - 100, 500 - 100."""
    network = filters(3)
    known = measured(network, [100], [1000, 800, 500], [0.4, 0.5, 0.9])

    found = priorities(network, known, flow(network, known, np.arange(3)))

    assert found.tolist() == pytest.approx([600, 300, 400])


def test_priorities_of_two_streams_are_4_to_6() -> None:
    """n = 1000, 800, n_3; S = 0.4, 0.5; V_R = 100, V_S = 50: 600 - 50, 400 - 100, n_3 - 150."""
    join = Join("j", Chain("R", (Operator("r", True),)), Chain("S", (Operator("s", True),)))
    network = Network.of([Query("q", Chain(join))])
    known = measured(network, [100, 50], [1000, 800, (300, 300)], [0.4, 0.5, (0.2, 0.2)])

    found = priorities(network, known, flow(network, known, np.arange(3)))

    assert found.tolist() == pytest.approx([550, 300, 150])


def test_a_lone_operator_is_first_and_last() -> None:
    network = filters(1)
    known = measured(network, [70], [100], [0.5])

    assert priorities(network, known, flow(network, known, np.arange(1))).tolist() == [100]


def test_slices_are_the_corrected_7() -> None:
    """n = 1000, 500, 250; S = 0.5, 0.4; V > n_1: t_1 = 600 / (1 + 1 + 0.8) ms, t_2 the same, t_3 0.8 of it."""
    network = filters(3)
    known = measured(network, [2000], [1000, 500, 250], [0.5, 0.4, 1.0])

    slices = slices_us(flow(network, known, np.arange(3)), T)

    t_1 = T / (1 + 1000 * 0.5 / 500 + 1000 * 0.5 * 0.4 / 250)
    assert slices.tolist() == [int(t_1), int(t_1), int(0.8 * t_1)]


def test_when_less_arrives_than_fills_t_1_slices_are_what_that_needs() -> None:
    """V = 100 < n_1 = 1000: 60 tuples in T, 60 ms for the first operator; half of them 60 ms for the second."""
    network = filters(2)
    known = measured(network, [100], [1000, 500], [0.5, 1.0])

    assert slices_us(flow(network, known, np.arange(2)), T).tolist() == [60_000, 60_000]


@given(each=OPERATORS, arriving=st.floats(0.0, 1e5))
def test_slices_fit_into_t_and_each_clears_what_the_one_before_made(
    each: list[tuple[float, float]], arriving: float
) -> None:
    network = filters(len(each))
    known = measured(network, [arriving], [n for n, _ in each], [s for _, s in each])

    slices = slices_us(flow(network, known, np.arange(network.size)), T)

    made = slices[:-1] * known.handled_per_s[:-1, 0] * known.selectivity[:-1, 0]
    handled = slices[1:] * known.handled_per_s[1:, 0]
    # Slices are whole microseconds, from 1 us.
    assert np.abs(made - handled).max(initial=0.0) <= 2 * known.handled_per_s.max()
    assert slices.sum() <= T + len(slices)


def test_a_round_visits_by_priority_but_nothing_before_what_feeds_it() -> None:
    network = one_stream(False, False, False)

    assert round_of(network, np.array([1.0, 3.0, 2.0])).tolist() == [0, 1, 2]


def test_of_two_streams_the_better_operator_is_visited_first() -> None:
    join = Join("j", Chain("R", (Operator("r"),)), Chain("S", (Operator("s"),)))
    network = Network.of([Query("q", Chain(join))])

    assert round_of(network, np.array([1.0, 2.0, 9.0])).tolist() == [1, 0, 2]
    assert round_of(network, np.array([2.0, 1.0, 9.0])).tolist() == [0, 1, 2]


def test_the_plan_puts_order_round_and_slices_together() -> None:
    network = filters(2)
    known = measured(network, [100], [1000, 1000], [0.9, 0.1])

    plan = MultiFactor().plan(network, known, first_plan(network))

    assert plan.order.tolist() == [1, 0]
    assert plan.discipline is Discipline.ROUND
    assert plan.slices_us.tolist() == [60_000, 6_000]


def test_the_shortest_deadline_of_all_queries_is_the_rounds() -> None:
    chain = Chain("s", (Operator("a"),))
    network = Network.of([Query("slow", chain), Query("fast", chain, 10_000)])
    known = measured(network, [10_000], [100, 100], [1.0, 1.0])

    plan = MultiFactor().plan(network, known, first_plan(network))

    assert plan.slices_us.tolist() == [5000, 5000]


def test_sorting_filters_by_the_priority_of_their_places_never_settles() -> None:
    """Why the order is by (1 - S) n alone: with n = 1000 and V = 100 the last place is always worth most but one."""
    network, order, seen = filters(3), np.arange(3), []
    known = measured(network, [100], [1000, 1000, 1000], [0.1, 0.5, 0.9])
    for _ in range(6):
        found = priorities(network, known, flow(network, known, order))
        order = order[np.argsort(-found, kind="stable")]
        seen.append(order.tolist())

    assert seen[0] != seen[1]
    assert seen[0:2] == seen[2:4] == seen[4:6]

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.scheduling.contract import Chain, Join, Query
from lakehouse.algorithms.scheduling.flow import (
    by_filtered,
    drained_per_s,
    filtered_per_s,
    flow,
    join_handled,
    join_selectivity,
)
from lakehouse.algorithms.scheduling.network import Network
from tests.algorithms.scheduling.test_network import TWO_STREAMS
from tests.algorithms.scheduling.workloads import filters, measured, one_stream
from tests.oracles.scheduling.deadline_rounds import by_margin, work

RATE = st.floats(0.1, 1e5)
FILTERS = st.lists(st.tuples(st.floats(1.0, 1e5), st.floats(0.0, 1.0)), min_size=1, max_size=5)


def test_a_chain_loads_the_machine_with_what_reaches_each_operator() -> None:
    network = filters(3)
    known = measured(network, [100], [1000, 500, 250], [0.5, 0.2, 1.0])

    flowing = flow(network, known, np.arange(3))

    assert flowing.into_per_s[:, 0].tolist() == [100, 50, 10]
    assert flowing.load.tolist() == pytest.approx([0.1, 0.1, 0.04])


def test_another_order_moves_costs_and_selectivities_along() -> None:
    network = filters(2)
    known = measured(network, [100], [1000, 500], [0.5, 0.2])

    flowing = flow(network, known, np.array([1, 0]))

    assert flowing.into_per_s[:, 0].tolist() == [100, 20]
    assert flowing.handled_per_s.tolist() == [500, 1000]


def test_the_last_operators_output_is_out_of_the_system() -> None:
    network = filters(2)
    flowing = flow(network, measured(network, [1], [1000, 500], [0.4, 0.9]), np.arange(2))

    assert drained_per_s(network, flowing).tolist() == [600, 500]


def test_a_join_counts_as_one_operator_section_2_2_2() -> None:
    """V_R = 300, V_S = 100, S_(S) = 0.5, S_(R) = 0.1, n_R = 600, n_S = 200: worked by hand."""
    assert join_selectivity(300, 100, 0.5, 0.1) == pytest.approx((150 + 10) / 400)
    assert join_handled(300, 100, 600, 200) == pytest.approx(600 * 200 * 400 / (300 * 200 + 100 * 600))


@given(left=RATE, right=RATE, n_left=RATE, n_right=RATE)
def test_a_join_takes_as_long_as_both_its_sides(
    left: float, right: float, n_left: float, n_right: float
) -> None:
    seconds = left / n_left + right / n_right

    assert (left + right) / join_handled(left, right, n_left, n_right) == pytest.approx(seconds)


def test_where_nothing_flows_a_join_is_the_mean_of_its_sides() -> None:
    assert join_selectivity(0, 0, 0.2, 0.6) == pytest.approx(0.4)
    assert join_handled(0, 0, 100, 100) == pytest.approx(100)


def test_a_join_is_fed_by_what_its_filters_leave() -> None:
    known = measured(
        TWO_STREAMS, [100, 200], [1000, 1000, 1000, (500, 250), 100], [0.5, 0.5, 0.5, (0.2, 0.4), 1.0]
    )

    flowing = flow(TWO_STREAMS, known, np.arange(5))

    assert flowing.into_per_s[3].tolist() == [50, 50]
    assert flowing.selectivity[3] == pytest.approx(0.3)
    assert flowing.into_per_s[4, 0] == pytest.approx(30)
    assert flowing.load[3] == pytest.approx(50 / 500 + 50 / 250)


def test_joins_nest_the_inner_ones_results_are_an_outer_ones_arrivals() -> None:
    inner = Join("inner", Chain("R"), Chain("S"))
    network = Network.of([Query("q", Chain(Join("outer", Chain(inner), Chain("T"))))])
    known = measured(network, [10, 20, 30], [(100, 100), (100, 50)], [(1.0, 2.0), (0.5, 0.5)])

    flowing = flow(network, known, np.arange(2))

    assert flowing.into_per_s[1].tolist() == [50, 30]
    assert flowing.handled_per_s[1] == pytest.approx(80 / (50 / 100 + 30 / 50))


@given(each=FILTERS)
def test_no_other_order_of_filters_makes_less_work(each: list[tuple[float, float]]) -> None:
    network = filters(len(each))
    known = measured(network, [1], [n for n, _ in each], [s for _, s in each])

    order = by_filtered(network, known, np.arange(network.size))

    least = min(work(known, np.array(other)) for other in permutations(range(network.size)))
    assert work(known, order) == pytest.approx(least)


def test_most_filtered_out_a_second_comes_first() -> None:
    network = filters(3)
    known = measured(network, [1], [1000, 1000, 500], [0.5, 0.25, 0.0])

    assert filtered_per_s(known).tolist() == [500, 750, 500]
    assert by_filtered(network, known, np.arange(3)).tolist() == [1, 0, 2]


def test_equals_stay_in_the_written_order() -> None:
    network = filters(3)
    known = measured(network, [1], [10, 10, 10], [0.5, 0.5, 0.5])

    assert by_filtered(network, known, np.array([2, 0, 1])).tolist() == [0, 1, 2]


def test_what_does_not_commute_stays_where_it_is() -> None:
    network = one_stream(True, True, False, True)
    known = measured(network, [1], [10, 20, 30, 40], [0.5, 0.5, 0.5, 0.0])

    assert by_filtered(network, known, np.arange(4)).tolist() == [1, 0, 2, 3]


@pytest.mark.parametrize(("margin", "order"), [(0.05, [0, 1]), (0.01, [1, 0])])
def test_a_margin_keeps_an_order_that_is_almost_as_good(margin: float, order: list[int]) -> None:
    """1 / 100 + 0.5 / 100 = 0.015 s a tuple as it stands, 1 / 100 + 0.47 / 100 = 0.0147 s the other way."""
    network = filters(2)
    known = measured(network, [1], [100, 100], [0.5, 0.47])

    assert by_margin(network, known, np.arange(2), margin).tolist() == order

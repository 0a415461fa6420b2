from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.scheduling.ordering import by_filtered, filtered_per_s, work
from tests.algorithms.scheduling.workloads import filters, measured, one_stream

FILTERS = st.lists(st.tuples(st.floats(1.0, 1e5), st.floats(0.0, 1.0)), min_size=1, max_size=5)


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


@pytest.mark.parametrize(("margin", "order"), [(0.0, [1, 0]), (0.05, [0, 1]), (0.01, [1, 0])])
def test_a_margin_keeps_an_order_that_is_almost_as_good(margin: float, order: list[int]) -> None:
    """1 / 100 + 0.5 / 100 = 0.015 s a tuple as it stands, 1 / 100 + 0.47 / 100 = 0.0147 s the other way."""
    network = filters(2)
    known = measured(network, [1], [100, 100], [0.5, 0.47])

    assert by_filtered(network, known, np.arange(2), margin).tolist() == order

from __future__ import annotations

import numpy as np
import pytest

from lakehouse.algorithms.multiway_join.contract import Cost, Query, Sending, Sites, Vector
from tests.oracles.multiway_join.block import Block

COSTS = [[0, 1, 2], [1, 0, 3], [2, 3, 0]]


def test_the_centre_is_the_site_nearest_to_all_others_both_ways() -> None:
    assert Sites.of("abc", COSTS).centre == 0
    assert Sites.of("abc", [[0, 9, 9], [1, 0, 3], [2, 3, 0]]).centre == 1


def test_an_unknown_site_is_refused_with_the_list_of_sites() -> None:
    with pytest.raises(ValueError, match="one of the sites a, b, c, found 'd'"):
        Sites.of("abc", COSTS).number("d")
    with pytest.raises(ValueError, match="one of the sites a, b, c, found 'd'"):
        Query(Sites.of("abc", COSTS), (1, 1, 1), asker="d")


@pytest.mark.parametrize("costs", [[[0, 1], [1, 0]], [[0, 1, 2], [1, 0, 3]], [0, 1, 2], 5])
def test_costs_that_do_not_cover_the_sites_are_refused(costs: object) -> None:
    with pytest.raises(ValueError, match=r"expected 3 x 3 transfer costs.*sites: a, b, c"):
        Sites.of("abc", costs)


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
def test_a_cost_that_is_negative_or_not_finite_is_refused_with_its_way(wrong: float) -> None:
    costs = np.array(COSTS, np.float64)
    costs[2, 1] = wrong

    with pytest.raises(ValueError, match=f"not negative.*found {wrong} from c to b; sites: a, b, c"):
        Sites.of("abc", costs)


def test_a_cost_from_a_site_to_itself_is_refused() -> None:
    with pytest.raises(ValueError, match=r"found 4.0 from b to b"):
        Sites.of("ab", [[0, 1], [1, 4]])


@pytest.mark.parametrize("names", [["a"], ["a", "a"], []])
def test_fewer_than_two_sites_or_one_named_twice_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match="at least two sites, each named once"):
        Sites.of(names, np.zeros((len(names), len(names))))


@pytest.mark.parametrize(("windows", "found"), [((1, 1), "found 2"), ((1, -1, None), "at least 0 us")])
def test_windows_that_are_not_one_from_0_for_each_site_are_refused(
    windows: tuple[int | None, ...], found: str
) -> None:
    with pytest.raises(ValueError, match=found):
        Query(Sites.of("abc", COSTS), windows)


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 keys, 1 rows and 2 missing"):
        Block.of("a", [1, 2], [1])


def test_a_vector_of_counted_entries_is_in_their_order() -> None:
    vector = Vector.of([9, -2, 4], [1, 2, 3], sums=[[10], [20], [30]])

    assert (vector.entries.tolist(), vector.counts.tolist()) == ([-2, 4, 9], [2, 3, 1])
    assert vector.sums.tolist() == [[20], [30], [10]]


@pytest.mark.parametrize(
    ("entries", "counts", "found"),
    [([1, 1], [2, 3], "2 entries, 1 of them different"), ([1], [], "0 counts"), ([1, 2], [1, 0], "found 0")],
)
def test_entries_without_one_count_from_1_each_are_refused(
    entries: list[int], counts: list[int], found: str
) -> None:
    with pytest.raises(ValueError, match=found):
        Vector.of(entries, counts)


@pytest.mark.parametrize("price", [-0.1, np.nan])
def test_a_price_below_0_is_refused(price: float) -> None:
    with pytest.raises(ValueError, match="prices that are finite and not negative"):
        Sending(entry=price)


def test_costs_add_up_by_what_was_moved() -> None:
    both = Cost(1, 2, 3, 4, 5) + Cost(data=10, order=0.5)

    assert both == Cost(11, 2, 3, 4.5, 5)
    assert both.total == 25.5

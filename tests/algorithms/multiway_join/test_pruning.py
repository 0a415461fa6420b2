"""Choice of a pruned or plain batch: the least of its own estimates, never much more than either way always."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.multiway_join.pruning import (
    Load,
    Prices,
    choose,
    fill_cost,
    plain_cost,
    pruned_cost,
)
from tests.algorithms.multiway_join.loads import is_dear, ratios, spent_on

PRICES = Prices()
ROWS = st.floats(0, 1e7)
LOADS = st.integers(3, 8).flatmap(
    lambda sides: st.builds(
        Load,
        new=st.tuples(*[ROWS] * sides),
        held=st.tuples(*[ROWS] * sides),
        matching=st.tuples(*[st.none() | st.floats(0, 1)] * sides),
        way=st.tuples(*[st.floats(0, 50)] * sides),
        is_filled=st.booleans(),
        is_kept=st.booleans(),
        lost=st.floats(0, 100),
    )
)


@given(load=LOADS)
def test_the_cheaper_way_of_all_is_chosen_where_windows_are_filled(load: Load) -> None:
    filled = replace(load, is_filled=True)

    found = choose(filled)

    costs = {False: plain_cost(filled, PRICES), True: pruned_cost(filled, PRICES)}
    assert found.fill == 0
    assert costs[found.is_pruned] == min(costs.values()) == min(found.plain, found.pruned)
    assert f"{found.plain:.3g} s plain" in found.why and f"{found.pruned:.3g} s pruned" in found.why


def test_estimates_add_up_row_by_row() -> None:
    """Every row priced by itself, as what becomes of it says."""
    sizes = (0, 1, 3)
    for new, held, matching, is_kept in product(sizes, sizes, (0.0, 1.0), (False, True)):
        load = Load((new, 2, 1), (held, 1, 2), (matching, 1.0, 0.0), (1.0, 2.0, 4.0), is_kept=is_kept)
        plain, pruned, fill = 0.0, PRICES.begin, 0.0
        for side, way in enumerate(load.way):
            for _ in range(round(load.new[side])):
                plain += PRICES.join + PRICES.move * way + PRICES.keep * is_kept
                pruned += PRICES.keep + PRICES.count
                for _ in range(2 if load.matching[side] else 0):
                    pruned += PRICES.send + PRICES.move * way
            for _ in range(round(load.held[side])):
                plain += PRICES.join + PRICES.move * way
                fill += PRICES.count + (0.0 if is_kept else PRICES.keep)
                # Compared with each other side's block of which something leaves.
                pruned += PRICES.scan * sum(
                    bool(load.new[other] and load.matching[other]) for other in range(3) if other != side
                )
        assert plain_cost(load, PRICES) == pytest.approx(plain)
        assert pruned_cost(load, PRICES) == pytest.approx(pruned)
        assert fill_cost(load, PRICES) == pytest.approx(fill)


@given(load=LOADS)
def test_a_share_that_nobody_has_found_counts_as_whole(load: Load) -> None:
    whole = replace(load, matching=tuple(1.0 if share is None else share for share in load.matching))

    assert pruned_cost(load, PRICES) == pruned_cost(whole, PRICES)


@pytest.mark.parametrize("seed", range(200))
def test_all_batches_together_cost_at_most_twice_plain_joins_and_three_times_pruned_ones(seed: int) -> None:
    spent = spent_on(seed)

    to_plain, to_pruned = ratios(spent)

    assert to_plain <= 2 and to_pruned <= 3
    for cost, choice in spent:
        # Only where windows have to be filled may a batch cost more than the cheaper way.
        assert choice.fill > 0 or cost == min(choice.plain, choice.pruned)
        assert choice.is_pruned or cost == choice.plain


def test_few_batches_cost_more_than_the_cheaper_way_by_much() -> None:
    batches = [each for seed in range(200) for each in spent_on(seed)]

    assert sum(map(is_dear, batches)) <= len(batches) / 10
    assert {each.choice.is_pruned for each in batches} == {False, True}

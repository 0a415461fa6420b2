from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.multiway_join.centre import Centre
from lakehouse.algorithms.multiway_join.contract import Plan, Query, Sending, Sites, Trip, Vector
from lakehouse.algorithms.multiway_join.cost import legs_of
from lakehouse.algorithms.multiway_join.exhaustive import Smje
from lakehouse.algorithms.multiway_join.synopsis import HashedSynopsis
from tests.algorithms.multiway_join.streams import SENDINGS, join_of, queries, streams
from tests.oracles.multiway_join.dense_synopsis import DenseSynopsis
from tests.oracles.multiway_join.every_order import every_order
from tests.oracles.multiway_join.fixed_order import FixedOrder
from tests.oracles.multiway_join.lottery import Lottery
from tests.oracles.multiway_join.vectors import check_centre, vector_in

PAPER = Query(Sites.of("123", [[0, 18, 25], [18, 0, 20], [25, 20, 0]]), (None, None, None))


def paper_centre(sending: Sending | None = None) -> Centre:
    """The centre after R1 = {3, 4, 8} and R3 = {3, 4}."""
    centre = Centre(PAPER, DenseSynopsis(3), Smje(), sending)
    centre.apply("1", vector_in(centre.synopsis, [3, 4, 8]))
    centre.apply("3", vector_in(centre.synopsis, [3, 4]))
    return centre


def paper_plan(keys: list[int], sending: Sending | None = None) -> Plan:
    centre = paper_centre(sending)
    return centre.apply("2", vector_in(centre.synopsis, keys))


def costs_by_order(keys: list[int]) -> dict[tuple[int, ...], float]:
    """Costs of the orders of a block of site 2; 0 is site 1, 1 is site 3."""
    centre, entries = paper_centre(), np.array(keys)
    stored = centre.synopsis.stored_at(entries)[[0, 2]].astype(np.float64)
    return dict(every_order(Trip(1, legs_of(PAPER, 1), np.ones(len(keys)), stored)))


def test_the_papers_example_without_a_filter_costs_129_or_110() -> None:
    plan = paper_plan([3, 4, 8], Sending(filters=False))

    assert costs_by_order([3, 4, 8]) == {(0, 1): 129, (1, 0): 110}
    assert (plan.filter, plan.order, plan.cost.data) == (None, ("3", "1"), 110)
    assert plan.sizes.tolist() == [3, 2, 2]


def test_the_papers_example_with_a_filter_costs_90_in_the_papers_order_and_86_in_the_best() -> None:
    plan = paper_plan([3, 4, 8])

    assert plan.filter is not None
    assert plan.filter.entries.tolist() == [3, 4]
    assert costs_by_order([3, 4]) == {(0, 1): 86, (1, 0): 90}
    assert (plan.order, plan.cost.data, plan.sizes.tolist()) == (("1", "3"), 86, [2, 2, 2])


def test_the_papers_later_block_costs_104_or_110() -> None:
    plan = paper_plan([3, 4, 9], Sending(filters=False))

    assert costs_by_order([3, 4, 9]) == {(0, 1): 104, (1, 0): 110}
    assert (plan.order, plan.cost.data) == (("1", "3"), 104)


def test_the_messages_of_the_papers_example_are_counted() -> None:
    plan = paper_plan([3, 4, 8])

    # The centre is site 2 itself (38 to the others, against 43 and 45): its own messages are free.
    assert plan.cost.total == 86
    centre = paper_centre()
    centre.apply("2", vector_in(centre.synopsis, [3, 4, 8]))
    cost = centre.apply("1", vector_in(centre.synopsis, [3, 8, 9])).cost
    assert (cost.synopsis, cost.filter, cost.order) == (3 / 4 * 18, 1 / 4 * 18, 2 / 16 * 18)


def test_a_block_of_which_nothing_can_join_stays_at_home_and_is_told_no_order() -> None:
    plan = paper_plan([1, 2])

    assert (plan.order, plan.sizes.tolist(), plan.cost.data, plan.cost.order) == ((), [0], 0, 0)


def test_sizes_are_products_of_counts() -> None:
    plans = []
    for rows in (2**26, 2**27):
        centre = Centre(PAPER, DenseSynopsis(3), Smje())
        for site in "13":
            centre.apply(site, Vector.of([7], [rows]))
        plans.append(centre.apply("2", Vector.of([7], [1])))

    assert [plan.sizes[-1] for plan in plans] == [2.0**52, 2.0**54]


def test_reads_are_the_stored_rows_of_the_entries_sent() -> None:
    centre = paper_centre(Sending(read=0.5))
    centre.apply("1", vector_in(centre.synopsis, [3, 3]))

    plan = centre.apply("2", vector_in(centre.synopsis, [3, 8]))

    assert dict(zip(plan.order, plan.reads.tolist(), strict=True)) == {"1": 3, "3": 1}
    assert plan.cost.reads == 2.0


def test_the_baseline_sends_no_messages_and_a_known_order_is_not_told() -> None:
    lottery = Centre(PAPER, DenseSynopsis(3), Lottery(3), Sending(filters=False))
    fixed = Centre(PAPER, DenseSynopsis(3), FixedOrder())
    for centre in (lottery, fixed):
        centre.apply("2", vector_in(centre.synopsis, [3]))
        centre.apply("3", vector_in(centre.synopsis, [3]))

    costs = [centre.apply("1", vector_in(centre.synopsis, [3])).cost for centre in (lottery, fixed)]

    assert costs[0].total == costs[0].data > 0
    assert (costs[1].synopsis, costs[1].filter, costs[1].order) == (4.5, 4.5, 0)


def test_expiry_costs_its_decrements_unless_the_centre_remembers() -> None:
    told = []
    for is_compact in (False, True):
        query = Query(PAPER.sites, (2, 2, 2))
        centre = Centre(query, DenseSynopsis(3), Smje(), Sending(is_compact=is_compact))
        centre.advance(0)
        centre.apply("1", vector_in(centre.synopsis, [3, 4, 4]))
        assert centre.advance(2).total == 0
        told.append(centre.advance(3).total)
        assert centre.synopsis.stored_at(np.array([3, 4])).sum() == 0

    assert told == [2 / 4 * 18, 0]


def test_costs_that_were_measured_anew_change_the_order() -> None:
    centre = paper_centre()
    centre.measure(np.array([[0, 30, 25], [30, 0, 20], [25, 20, 0]], np.float64))

    plan = centre.apply("2", vector_in(centre.synopsis, [3, 4, 8]))

    assert (plan.order, plan.cost.data) == (("3", "1"), 90)
    with pytest.raises(ValueError, match="expected 3 x 3"):
        centre.measure(np.zeros((2, 2)))


def test_an_unknown_site_and_a_time_before_the_last_are_refused() -> None:
    centre = paper_centre()
    centre.advance(5)

    with pytest.raises(ValueError, match="one of the sites 1, 2, 3, found '4'"):
        centre.apply("4", vector_in(centre.synopsis, [1]))
    with pytest.raises(ValueError, match="a time from 5 us on, found 4"):
        centre.advance(4)


def test_a_snapshot_of_another_centre_is_refused() -> None:
    stranger = Centre(PAPER, DenseSynopsis(3), FixedOrder()).snapshot()

    with pytest.raises(ValueError, match=r"expected a snapshot of .*Smje.*found one of .*FixedOrder"):
        paper_centre().restore(stranger)


def test_a_snapshot_with_other_slots_is_refused() -> None:
    centres = [Centre(PAPER, HashedSynopsis(3, slots), Smje()) for slots in (8, 9)]

    with pytest.raises(ValueError, match=r"expected a snapshot of .*slots=8.*found one of .*slots=9"):
        centres[0].restore(centres[1].snapshot())


@settings(max_examples=25, deadline=None)
@given(data=st.data(), query=queries(), sending=SENDINGS)
def test_a_hashed_plan_is_never_below_the_exact_one(
    data: st.DataObject, query: Query, sending: Sending
) -> None:
    exact, hashed = (
        join_of(query, "fixed_order", synopsis, sending).centre for synopsis in ("dense", "hashed")
    )

    for at_us, blocks in data.draw(streams(query)):
        exact.advance(at_us)
        hashed.advance(at_us)
        for block in blocks:
            true = exact.apply(block.site, vector_in(exact.synopsis, block.key, block.missing))
            bound = hashed.apply(block.site, vector_in(hashed.synopsis, block.key, block.missing))
            assert np.all(bound.sizes[: len(true.sizes)] >= true.sizes[: len(bound.sizes)])
            assert bound.cost.data >= true.cost.data


def test_check_finds_a_count_without_its_rows() -> None:
    centre = Centre(Query(PAPER.sites, (2, 2, 2)), DenseSynopsis(3), Smje())
    centre.advance(0)
    centre.apply("1", vector_in(centre.synopsis, [3]))
    centre.synopsis.increment(0, vector_in(centre.synopsis, [3]))

    with pytest.raises(AssertionError, match="a count without its rows"):
        check_centre(centre)


@given(
    blocks=st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.tuples(st.integers(0, 4), st.integers(-5, 5)), max_size=6)),
        max_size=8,
    )
)
def test_rows_with_times_of_their_own_are_counted_until_their_own_windows_end(
    blocks: list[tuple[int, list[tuple[int, int]]]],
) -> None:
    """A block's rows are (key, how far their own time is from the block's)."""
    window, now, held = 3, 0, np.empty((0, 2), np.int64)
    centre = Centre(Query(Sites.of("ab", [[0, 1], [1, 0]]), (window, None)), DenseSynopsis(2), Smje())
    for step, rows in blocks:
        now += step
        centre.advance(now)
        held = held[held[:, 1] >= now - window] if step else held
        assert (
            centre.synopsis.stored_at(np.arange(5))[0].tolist()
            == np.bincount(held[:, 0], minlength=5).tolist()
        )
        found = np.array([(key, now + away) for key, away in rows], np.int64).reshape(-1, 2)
        parts = [
            (int(at_us), vector_in(centre.synopsis, found[found[:, 1] == at_us, 0]))
            for at_us in np.unique(found[:, 1])[::-1]
        ]
        centre.apply("a", vector_in(centre.synopsis, found[:, 0]), parts)
        check_centre(centre)
        held = np.concatenate([held, found])


def test_real_sizes_cost_what_their_ways_cost() -> None:
    centre = paper_centre()
    plan = centre.apply("2", vector_in(centre.synopsis, [3, 4, 8]))
    nothing = centre.apply("2", vector_in(centre.synopsis, [1]))

    assert plan.order == ("1", "3")
    assert centre.cost_of(plan, np.array([2.0, 1.0, 1.0])).data == 2 * 18 + 1 * 25
    assert centre.cost_of(plan, plan.sizes) == plan.cost
    assert centre.cost_of(nothing, np.zeros(1)) == nothing.cost

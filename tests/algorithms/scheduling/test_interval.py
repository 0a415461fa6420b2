from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.scheduling.contract import Plan, Statistics
from lakehouse.algorithms.scheduling.interval import Interval, Replanning
from lakehouse.algorithms.scheduling.multifactor import MultiFactor
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policies import Fifo
from tests.algorithms.scheduling.workloads import filters, one_stream

TAU = Interval(1000, 500, 4000, 2)


def test_tau_doubles_after_as_many_intervals_without_a_change_and_no_further_than_its_bound() -> None:
    lengths, tau = [], TAU
    for _ in range(6):
        tau = tau.after(False)
        lengths.append(tau.length_us)

    assert lengths == [1000, 2000, 2000, 4000, 4000, 4000]


def test_tau_halves_on_a_change_and_counts_anew() -> None:
    tau = TAU.after(False).after(True)

    assert (tau.length_us, tau.unchanged) == (500, 0)
    assert tau.after(True).length_us == 500
    assert tau.after(False).length_us == 500


@given(changes=st.lists(st.booleans(), max_size=50))
def test_tau_stays_within_its_bounds(changes: list[bool]) -> None:
    tau = TAU
    for is_changed in changes:
        tau = tau.after(is_changed)

    assert TAU.least_us <= tau.length_us <= TAU.most_us


@pytest.mark.parametrize(
    "values", [(100, 200, 400, 1), (500, 100, 400, 1), (100, 5, 400, 1), (100, 50, 400, 0)]
)
def test_bounds_that_contradict_each_other_are_refused(values: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="expected 10 us <= least"):
        Interval(*values)


def counted(planning: Replanning, passed: tuple[int, int]) -> None:
    """Count a hundred tuples into both filters."""
    counts = planning.counts
    counts.taken[:, 0], counts.passed[:, 0], counts.busy_us[:, 0] = 100, passed, 1000.0


def test_the_plan_is_made_at_90_percent_and_serves_from_the_end() -> None:
    planning = Replanning(filters(2), MultiFactor(), TAU)
    counted(planning, (90, 10))

    assert planning.due_us == 900
    assert not planning.advance(899)
    assert not planning.advance(900)
    assert (planning.due_us, planning.plan.order.tolist()) == (1000, [0, 1])
    # What comes after the plan was made is the next interval's.
    counted(planning, (10, 90))
    assert planning.advance(1000)
    assert planning.plan.order.tolist() == [1, 0]
    assert (planning.changes, planning.interval.length_us, planning.due_us) == (1, 500, 1450)


def test_an_interval_in_which_nothing_was_handled_keeps_the_plan() -> None:
    planning = Replanning(filters(2), MultiFactor(), TAU)

    assert planning.advance(5000)

    assert planning.plan.order.tolist() == [0, 1]
    assert planning.interval.unchanged == 1


def test_time_counts_from_where_it_starts() -> None:
    assert Replanning(filters(1), Fifo(), TAU, 10**12).due_us == 10**12 + 900


class Wrong:
    name = "wrong"
    reorders = True

    def plan(self, network: Network, measured: Statistics, before: Plan) -> Plan:
        return replace(before, order=np.array([1, 0]))


def test_an_order_that_breaks_a_query_is_refused() -> None:
    planning = Replanning(one_stream(True, False), Wrong(), TAU)
    counted(planning, (1, 1))

    with pytest.raises(ValueError, match=r"policy wrong: expected an order within segments, found \[1, 0\]"):
        planning.advance(1000)


def test_the_first_plan_is_made_from_what_an_earlier_run_has_shown() -> None:
    network = filters(2)
    known = Statistics(np.array([100.0]), np.full((2, 2), 1000.0), np.array([[0.9, 1.0], [0.1, 1.0]]), 3.0)

    planning = Replanning(network, MultiFactor(), TAU, known=known)

    assert planning.plan.order.tolist() == [1, 0]
    assert planning.measured is known
    assert planning.changes == 0


def test_what_is_known_of_another_network_is_refused() -> None:
    known = Statistics(np.array([100.0]), np.full((3, 2), 1000.0), np.ones((3, 2)))

    with pytest.raises(ValueError, match="expected n, S and V of shapes"):
        Replanning(filters(2), MultiFactor(), TAU, known=known)


def test_what_was_counted_is_told_over_all_intervals() -> None:
    planning = Replanning(filters(2), Fifo(), replace(TAU, patience=9))
    for end_us in (1000, 2000, 3000):
        counted(planning, (90, 10))
        planning.advance(end_us - 100)
        planning.advance(end_us)
    counted(planning, (90, 10))

    whole = planning.counted()

    assert whole.taken.sum() == 4 * planning.counts.taken.sum()
    assert whole.passed[:, 0].tolist() == [360, 40]
    assert planning.counts.passed[:, 0].tolist() == [90, 10]

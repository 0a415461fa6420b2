from __future__ import annotations

import numpy as np
import pytest

from lakehouse.algorithms.scheduling.measuring import UNKNOWN_PER_S, Counts, nothing_measured
from tests.algorithms.scheduling.workloads import filters


def test_n_s_and_v_are_those_of_the_interval() -> None:
    network = filters(2)
    counts = Counts.zero(network)
    counts.taken[0, 0], counts.passed[0, 0], counts.busy_us[0, 0] = 100, 25, 50_000.0
    counts.arrived[0] = 120
    counts.switched[:] = 4, 100

    known = counts.measured(500_000, nothing_measured(network))

    assert known.handled_per_s[0, 0] == pytest.approx(2000)
    assert known.selectivity[0, 0] == pytest.approx(0.25)
    assert known.arrived_per_s[0] == pytest.approx(240)
    assert known.switch_us == pytest.approx(25)


def test_what_the_interval_did_not_reach_keeps_what_was_known() -> None:
    network = filters(2)
    first, second = Counts.zero(network), Counts.zero(network)
    first.taken[1, 0], first.passed[1, 0], first.busy_us[1, 0] = 10, 5, 1000.0
    first.switched[:] = 1, 7
    before = first.measured(1000, nothing_measured(network))

    known = second.measured(1000, before)

    assert known.handled_per_s[1, 0] == pytest.approx(10_000)
    assert known.selectivity[1, 0] == pytest.approx(0.5)
    assert known.switch_us == pytest.approx(7)
    assert known.handled_per_s[0, 0] == UNKNOWN_PER_S


def test_operators_that_share_work_are_measured_together_for_n_and_apart_for_s() -> None:
    network = filters(2)
    counts = Counts.zero(network, np.array([0, 0]))
    counts.taken[:, 0], counts.passed[:, 0], counts.busy_us[:, 0] = [100, 300], [50, 30], [4000.0, 0.0]

    known = counts.measured(1000, nothing_measured(network))

    assert known.handled_per_s[:, 0].tolist() == pytest.approx([100_000, 100_000])
    assert known.selectivity[:, 0].tolist() == pytest.approx([0.5, 0.1])


def test_another_interval_begins_with_nothing() -> None:
    network = filters(1)
    counts = Counts.zero(network)
    counts.taken[0, 0], counts.arrived[0] = 3, 3
    counts.clear()

    known = counts.measured(1000, nothing_measured(network))

    assert known.arrived_per_s.tolist() == [0]
    assert known.handled_per_s[0, 0] == UNKNOWN_PER_S

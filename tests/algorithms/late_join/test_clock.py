"""The clock of a join that goes on from several others."""

from __future__ import annotations

import numpy as np

from lakehouse.algorithms.late_join.kernels.clock import (
    HOLD,
    HORIZON,
    NEWEST,
    NEXT_CHOICE,
    PROCESSED,
    SLACK,
    TIME,
    clock_after,
    empty_sides,
)


def test_a_clock_that_goes_on_from_several_is_behind_none_of_them_and_waits_as_long_as_any() -> None:
    one, two = empty_sides(), empty_sides()
    one[:, [NEWEST, HORIZON, SLACK, HOLD]] = [[100, 60, 10, 70], [90, 80, 0, 95]]
    two[:, [NEWEST, HORIZON, SLACK, HOLD]] = [[95, 75, 5, 80], [99, 50, 30, 40]]
    states = np.zeros((2, 7), np.int64)
    states[:, [TIME, NEXT_CHOICE, PROCESSED]] = [[90, 100, 7], [95, 110, 5]]

    sides, state = clock_after(np.stack([one, two]), states, 9)

    assert sides[:, [NEWEST, HORIZON, SLACK, HOLD]].tolist() == [[100, 75, 10, 70], [99, 80, 30, 40]]
    assert state[[TIME, NEXT_CHOICE, PROCESSED]].tolist() == [95, 110, 9]
    assert clock_after(np.stack([one]), states[:1], 2)[1][PROCESSED] == 7

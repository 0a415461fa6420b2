"""What sets the slack of each side: the protocol of policies, and the slack that never changes.

The left side's slack is how much longer than the window its rows are kept, for late rows of the right side.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.late_join.slack_grid import slack_grid

Slacks = tuple[int, int]


class SlackPolicy(Protocol):
    """Learns from each row and, every ``step_us`` of stream time, chooses both slacks in microseconds.

    ``grid`` gives the bins in which needed slacks are counted. ``begin`` is called once, with the window of the join.
    """

    step_us: int
    grid: npt.NDArray[np.int64]

    def begin(self, window_us: int) -> None:
        """Prepare for a join with this window."""

    def observe(self, trace: npt.NDArray[np.void], needed: npt.NDArray[np.int64]) -> None:
        """Learn from rows just processed, and from the bins of slack that their pairs needed, per stored side."""

    def choose(self, time_us: int) -> Slacks:
        """Return the slack of the left and of the right side from now on."""

    def snapshot(self) -> bytes:
        """Return the whole state; equal states give equal bytes."""

    def restore(self, packed: bytes) -> None:
        """Become the policy that the snapshot was taken of."""


class ConstantSlack:
    """The same slacks for ever: how a policy is judged in hindsight, and a join with slacks known beforehand."""

    def __init__(self, left_us: int, right_us: int, step_us: int = 1_000_000) -> None:
        if left_us < 0 or right_us < 0 or step_us < 1:
            raise ValueError(
                f"expected slacks from 0 and a step from 1 us, found {left_us}, {right_us}, {step_us}"
            )
        self.step_us, self.slacks = step_us, (left_us, right_us)
        self.grid = slack_grid(2**20)

    def begin(self, window_us: int) -> None:
        """Do nothing."""

    def observe(self, trace: npt.NDArray[np.void], needed: npt.NDArray[np.int64]) -> None:
        """Learn nothing."""

    def choose(self, time_us: int) -> Slacks:
        """Return the declared slacks."""
        return self.slacks

    def snapshot(self) -> bytes:
        """Return nothing: there is no state."""
        return b""

    def restore(self, packed: bytes) -> None:
        """Do nothing."""

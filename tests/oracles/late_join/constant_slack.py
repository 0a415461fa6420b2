"""The slack that never changes: how policies are judged in hindsight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.algorithms.late_join.slack_grid import slack_grid
from lakehouse.algorithms.late_join.sources import NO_WATCH, Watch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lakehouse.algorithms.late_join.policy import Slacks


class ConstantSlack:
    """The same slacks for ever: how a policy is judged in hindsight, and a join with slacks known beforehand."""

    def __init__(self, left_us: int, right_us: int, step_us: int = 1_000_000) -> None:
        if left_us < 0 or right_us < 0 or step_us < 1:
            raise ValueError(
                f"expected slacks from 0 and a step from 1 us, found {left_us}, {right_us}, {step_us}"
            )
        self.step_us, self.slacks = step_us, (left_us, right_us)
        self.grid = slack_grid(2**20)
        self.watch: Watch = NO_WATCH

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

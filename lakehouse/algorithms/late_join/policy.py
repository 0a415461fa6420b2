"""Protocol of all policies, which set the slack of each side.

The left side's slack is how much longer than the window its rows are kept, for late rows of the right side.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.late_join.sources import Watch

Slacks = tuple[int, int]


class SlackPolicy(Protocol):
    """Learns from each row and, every ``step_us`` of stream time, chooses both slacks in microseconds.

    ``grid`` gives the bins in which needed slacks are counted. ``watch`` are the sources for which rows are held while
    they are silent, ``NO_WATCH`` for none. ``begin`` is called once, with the window of the join.
    """

    step_us: int
    grid: npt.NDArray[np.int64]
    watch: Watch

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

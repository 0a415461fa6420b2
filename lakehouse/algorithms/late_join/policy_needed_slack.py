"""Chooses slacks by counting, for every pair, the slack that it needed.

When row x arrives, an earlier row y of side z is present, for a constant slack d of that side, exactly if ``d > n``
with ``n = T - w - y.ts`` and T the stream time before x. So

    recall(d_L, d_R) = (C_L(d_L) + C_R(d_R)) / all pairs        C: pairs with n below d, by stored side

which is separable and only grows: the cheapest slacks are found by one walk along their frontier, without a
model of windows, delays or selectivity. A pair that was found tells its n; of pairs that a logged row has missed, each
granule of the other side's arrivals tells how many and at which n: count times the row's own selectivity, drawn
towards the usual one, until exact counts come from the repair (``replace``).

Counts are kept by quarters of a period over the last ten periods: a burst of delays that has come is guarded
against for that long, the next of its kind finds its pairs. Every step the slacks of least memory are
chosen with which *every* period inside them would have reached ``1 - margin * (1 - recall)``, and with which at most
``logged`` of the rows are logged.

Guarantee: none for the future; the counts of found pairs are exact. Cost: a row O(1), a logged row O(64), a choice
O(slacks), and O(quarters x slacks) for the first one of a quarter; memory 41 quarters x 2 sides x 300 slacks, four
times (0.8 MB), and 128 KiB for arrivals; a snapshot holds what is not 0.

Source: ours. The paper models the same recall, see ``policy_paper.py``.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.late_join.arrival_counts import ArrivalCounts
from lakehouse.algorithms.late_join.contract import NO_TIME, Int64s
from lakehouse.algorithms.late_join.kernels.needed_slack import asked_of, cheapest, learn, sum_settled
from lakehouse.algorithms.late_join.margin import judged_share, usual_logged, usual_margin
from lakehouse.algorithms.late_join.policy import Slacks
from lakehouse.algorithms.late_join.slack_grid import slack_grid
from lakehouse.algorithms.late_join.sources import NO_WATCH, Watch

QUARTERS_PER_PERIOD = 4


class NeededSlack:
    """The slack policy that counts. ``recall`` is the share of pairs wanted online in any period.

    Args:
        recall: the share wanted, above 0 and below 1.
        period_us: the period over which recall is judged.
        step_us: stream time between choices.
        granularity_us: the finest difference between slacks.
        margin: how much of the allowed loss may be used; the rest is for what the past does not tell. A quarter by
            default, less above a recall of 0.98, where one burst is a whole allowance: an eighth at 0.99.
        logged: the share of rows that may be logged, each of which the repair has to look at. A twentieth by default,
            less above a recall of 0.8: a quarter of the allowed loss.
        remembered: how many periods back the counts go.
        spare: how many rows both sides may hold whether they are needed or not; with few rows known, more slack than
            the past asks for is taken while it costs no more than these.
        sides: how many there are.

    Raises ValueError when a share is outside (0, 1], a time below 1 us, or no period is remembered.
    """

    def __init__(
        self,
        recall: float,
        period_us: int,
        step_us: int = 1_000_000,
        granularity_us: int = 10_000,
        margin: float | None = None,
        logged: float | None = None,
        remembered: int = 10,
        spare: int = 0,
        sides: int = 2,
    ) -> None:
        margin = usual_margin(recall) if margin is None else margin
        logged = usual_logged(recall) if logged is None else logged
        if not (0 < recall < 1 and 0 < margin <= 1 and 0 < logged <= 1):
            raise ValueError(
                f"expected recall, margin and logged within (0, 1], found {recall}, {margin}, {logged}"
            )
        if min(period_us // QUARTERS_PER_PERIOD, step_us, remembered, spare + 1) < 1:
            found = period_us, step_us, remembered, spare
            raise ValueError(
                f"expected a period from 4 us, a step and periods from 1, spare rows from 0, found {found}"
            )
        self.recall, self.period_us, self.step_us = recall, period_us, step_us
        self.margin, self.logged, self.spare = margin, logged, spare
        # Margin and logged rows where the latest period has fewer pairs: here nothing differs.
        self._of_few, self._few = (margin, logged), 0.0
        self.grid: Int64s = slack_grid(granularity_us)
        self.watch: Watch = NO_WATCH
        self._quarter_us = period_us // QUARTERS_PER_PERIOD
        self._quarter: int | None = None
        # Stream time of the last choice before the first row that is known.
        self._since_us = 0
        # One more than whole periods have: the newest quarter is not full yet.
        self._quarters = QUARTERS_PER_PERIOD * remembered + 1
        shape = self._quarters, sides, len(self.grid) + 1
        # By quarter, stored side and bin of slack: pairs counted, pairs estimated, and rows by their lag behind T.
        self._counted = np.zeros(shape)
        self._estimated = np.zeros(shape)
        self._behind = np.zeros(shape)
        self._totals = np.zeros((self._quarters, 3))
        # What choices within a quarter share; None where a quarter before the newest has changed since.
        self._settled: tuple[Any, ...] | None = None

    def begin(self, window_us: int) -> None:
        """Prepare for a join with this window."""
        self._window_us = window_us
        self._arrivals = ArrivalCounts(window_us)

    def observe(self, trace: npt.NDArray[np.void], needed: npt.NDArray[np.int64]) -> None:
        """Learn from rows just processed and the slack that their pairs needed; cost O(rows + pairs)."""
        self._counted[-1] += needed
        arrivals = self._arrivals
        learn(
            trace,
            self._window_us,
            arrivals.granule_us,
            self.grid,
            self._totals[-1],
            self._estimated[-1],
            self._behind[-1],
            (arrivals.granules, arrivals.counts),
        )

    def choose(self, time_us: int) -> Slacks:
        """Return the cheapest slacks with which every period seen would have been complete enough."""
        self._turn(time_us // self._quarter_us)
        *asked, rows = self._asked(time_us)
        # A side's slack is for rows of the other.
        covered, totals, share, least = asked
        left, right = cheapest(covered, totals, share, least, rows[::-1].copy(), self.grid)
        return int(self.grid[left]), int(self.grid[right])

    def _asked(self, time_us: int) -> tuple[Any, ...]:
        """Return what slacks have to cover, and how many rows are known by side."""
        if self._settled is None:
            kept = self._counted, self._estimated, self._behind
            self._settled = sum_settled(*kept, QUARTERS_PER_PERIOD)
        newest = self._counted[-1], self._estimated[-1], self._behind[-1]
        if self._settled[-1] == 0 and not newest[-1].any():
            self._since_us = time_us
        lasted_us = min(self._quarter_us, max(self.step_us, time_us - self._since_us))
        margin_of_few, logged_of_few = self._of_few
        of_all = judged_share(self.recall, self.margin), self.logged
        rule = of_all, (judged_share(self.recall, margin_of_few), logged_of_few), self._few
        spare = lasted_us, self._window_us, self.spare
        asked: tuple[Any, ...] = asked_of(self._settled, newest, rule, spare, self.grid)
        return asked

    @property
    def pairs_of_latest_period(self) -> float:
        """Return the pairs of the period until the last choice, missed ones as estimated."""
        return 0.0 if self._settled is None else float(self._settled[1][-1])

    @property
    def kept_us(self) -> int:
        """Return how far back from stream time counts go."""
        return self._quarters * self._quarter_us

    def count_missed(
        self, side: npt.NDArray[np.integer[Any]], event_us: Int64s, time_us: Int64s, edge_us: Int64s
    ) -> Int64s:
        """Count pairs that were missed by when that was and the slack they needed, as ``replace`` takes them.

        Args:
            side: of each pair the *earlier* row's side.
            event_us: that row's event time.
            time_us: the stream time that was logged with the later row.
            edge_us: the edge that was logged with it.

        Returns:
            Rows of (start of the quarter, side, the least slack of the grid that finds them, pairs); beyond the grid
            its last slack and 1.
        """
        needed = np.searchsorted(self.grid, edge_us - event_us, side="right")
        slack = np.append(self.grid, self.grid[-1] + 1)[needed]
        places = np.column_stack([time_us - time_us % self._quarter_us, side, slack]).astype(np.int64)
        unique, pairs = np.unique(places.reshape(-1, 3), axis=0, return_counts=True)
        return np.column_stack([unique, pairs])

    def replace(self, until_us: int, missed: Int64s) -> None:
        """Put the exact counts of missed pairs in the place of what was estimated, for quarters that ended by then.

        ``missed`` are the counts of all pairs missed by rows that were logged at stream times before ``until_us``;
        those of one place add up. Quarters no longer kept are ignored, so doing it again changes nothing.
        """
        if self._quarter is None:
            return
        oldest = self._quarter - self._quarters + 1
        whole = max(0, min(until_us // self._quarter_us - oldest, self._quarters - 1))
        start, side, slack, pairs = missed.T
        slot = start // self._quarter_us - oldest
        known = (slot >= 0) & (slot < whole)
        place = slot[known], side[known], np.searchsorted(self.grid, slack[known])
        self._settled = None
        self._estimated[:whole] = 0.0
        np.add.at(self._estimated, place, pairs[known].astype(np.float64))

    def snapshot(self) -> bytes:
        """Return the whole state; bins and granules that are empty take no space."""
        return b"".join(len(part).to_bytes(8, "little") + part for part in self.parts())

    def parts(self) -> list[bytes]:
        """Return the parts of the snapshot; those of a policy that learns more come after them."""
        quarter = NO_TIME if self._quarter is None else self._quarter
        parts = [np.array([quarter, self._since_us], np.int64).tobytes(), self._totals.tobytes()]
        parts += [_sparse(each) for each in (self._counted, self._estimated, self._behind)]
        return [*parts, self._arrivals.pack()]

    def restore(self, packed: bytes) -> None:
        """Become the policy that the snapshot was taken of; all settings must be the same."""
        parts = parts_of(packed)
        quarter, self._since_us = np.frombuffer(parts[0], np.int64).tolist()
        self._quarter = None if quarter == NO_TIME else quarter
        self._totals = np.frombuffer(parts[1]).reshape(-1, 3).copy()
        shape = self._counted.shape
        self._counted, self._estimated, self._behind = (_dense(part, shape) for part in parts[2:5])
        self._arrivals.unpack(parts[5])
        self._settled = None

    def _turn(self, quarter: int) -> None:
        """Begin the quarter that stream time has come to; the oldest ones go."""
        by = 0 if self._quarter is None else min(quarter - self._quarter, self._quarters)
        self._quarter = quarter
        if by > 0:
            self._settled = None
            for kept in (self._counted, self._estimated, self._behind, self._totals):
                kept[: len(kept) - by] = kept[by:].copy()
                kept[-by:] = 0.0


def _sparse(values: npt.NDArray[np.float64]) -> bytes:
    where = np.flatnonzero(values)
    return where.tobytes() + values.ravel()[where].tobytes()


def _dense(packed: bytes, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    half = len(packed) // 2
    values = np.zeros(math.prod(shape))
    values[np.frombuffer(packed[:half], np.int64)] = np.frombuffer(packed[half:])
    return values.reshape(shape)


def parts_of(packed: bytes) -> list[bytes]:
    """Return the parts of a snapshot, one after the other."""
    parts, at = [], 0
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 8], "little")
        parts.append(packed[at + 8 : at + 8 + size])
        at += 8 + size
    return parts

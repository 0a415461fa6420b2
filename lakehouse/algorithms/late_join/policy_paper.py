"""Chooses slacks as the paper does: a model of recall from rates, delays and selectivity, tried over a grid.

Symbols, all over the last step L: V rate of a side, ``f`` share of its rows by delay, w window, b basic window,
M memory, N_x rows offered, sel matches by offers; d_L, d_R slacks of the left and the right side.

    minimise    M = (d_L + w) V_L + (d_R + w) V_R                                        (2)
    subject to  Q(d_L, d_R) = sel(d_L, d_R) N_x(d_L, d_R) / (sel(max) N_x(max)) >= Q_L   (4), (5), (8)
    target      (N'(P - L) + N(L) Q_L) / N(P) >= recall,   N(L) / N(P) = L / P           (3)
    offered     N_x = V_L L |W_R|(d_R) + V_R L |W_L|(d_L)                                (6), (9)
    window      |W|(d) = sum over basic windows i of V b P[delay <= (i - 1) b], the last as long as what is left
                of w, plus d                                                             (7)
    sel         matches / offers of rows with delay up to the other side's slack         (11), (12)

Guarantee: none; the model can promise recall that does not come. Cost: a row O(64), a choice O(slacks^2).

Reference: Wei et al., QJoin, sections 1.4 and 1.5. Differs from the paper: (11) and (12) are the right way round, they
print offers above matches; the target is held within 0 and 1, which it leaves; the whole grid is searched, as
recall is not always monotone in the model; beyond 64 steps the grid grows by 8 %, as 142 s by 10 ms would be 2e8
points. "Largest delay" can be read in two ways: of the whole history, or of the last L (``reading``).
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numba import njit

from lakehouse.algorithms.late_join.arrival_counts import ArrivalCounts, arrived_between, count_arrival
from lakehouse.algorithms.late_join.contract import NO_TIME, Float64s, Int64s
from lakehouse.algorithms.late_join.policy import Slacks
from lakehouse.algorithms.late_join.slack_grid import bin_of, slack_grid
from lakehouse.algorithms.late_join.sources import NO_WATCH, Watch

Reading = Literal["history", "recent"]
# Of each row by the bin of its delay: how many, its matches, the rows that it was offered.
ROWS, MATCHES, OFFERS = range(3)


class PaperSlack:
    """The paper's slack policy; until the first period has passed the slack is the largest delay.

    Args:
        recall: the share of pairs wanted online in any period.
        period_us: the period, P.
        step_us: stream time between choices, L; divides the period.
        basic_us: the basic window, b.
        granularity_us: the finest difference between slacks, g.
        reading: whether the largest delay is that of the whole history or of the last step.

    Raises ValueError when the recall is outside (0, 1) or the step does not divide the period.
    """

    def __init__(
        self,
        recall: float,
        period_us: int,
        step_us: int = 1_000_000,
        basic_us: int = 10_000,
        granularity_us: int = 10_000,
        reading: Reading = "history",
    ) -> None:
        if not 0 < recall < 1 or step_us < 1 or period_us < step_us or period_us % step_us or basic_us < 1:
            raise ValueError(
                f"expected a recall within (0, 1) and a step that divides the period, found {recall}, {step_us}, "
                f"{period_us}"
            )
        self.recall, self.period_us, self.step_us = recall, period_us, step_us
        self.basic_us, self.reading = basic_us, reading
        self.grid: Int64s = slack_grid(granularity_us)
        self.watch: Watch = NO_WATCH
        self._by_delay = np.zeros((2, 3, len(self.grid) + 1))
        self._largest = np.zeros(2, np.int64)
        # Stream time of the first choice and of the last; results really produced, by step, oldest first.
        self._times = np.full(2, NO_TIME, np.int64)
        self._produced = np.zeros(period_us // step_us)

    def begin(self, window_us: int) -> None:
        """Prepare for a join with this window."""
        self._window_us = window_us
        self._arrivals = ArrivalCounts(window_us)

    def observe(self, trace: npt.NDArray[np.void], needed: npt.NDArray[np.int64]) -> None:
        """Learn delays, matches and offers of rows just processed."""
        width, arrivals = self._arrivals.granule_us, (self._arrivals.granules, self._arrivals.counts)
        learn_delays(trace, self._window_us, width, self.grid, self._by_delay, self._largest, arrivals)
        self._produced[-1] += needed.sum()

    def choose(self, time_us: int) -> Slacks:
        """Return the cheapest slacks of the grid for which the model promises the target of the next step."""
        if self._times[0] == NO_TIME:
            self._times[:] = time_us
        largest = np.searchsorted(self.grid, self._largest)
        chosen = largest
        if time_us - self._times[0] >= self.period_us and time_us > self._times[1]:
            chosen = self._search(largest, (time_us - self._times[1]) / 1e6)
        self._begin_step(time_us)
        return int(self.grid[chosen[0]]), int(self.grid[chosen[1]])

    def promised(self, largest: Int64s, seconds: float) -> tuple[Float64s, float]:
        """Return the model's recall, left x right slacks of the grid, and all pairs of the last step."""
        rows = self._by_delay.cumsum(axis=2)
        rates = rows[:, ROWS, -1] / seconds
        reach = [self.grid[: int(most) + 1] for most in largest]
        windows = [self._window(side, reach[side], rates[side]) for side in (0, 1)]
        offered = rates[1] * windows[0][:, None] + rates[0] * windows[1][None, :]
        # Rows of the left side use the right side's slack, and the other way round.
        matches, offers = (
            rows[1, kind, : len(reach[0])][:, None] + rows[0, kind, : len(reach[1])][None, :]
            for kind in (MATCHES, OFFERS)
        )
        pairs = offered * seconds * np.divide(matches, offers, out=np.zeros_like(matches), where=offers > 0)
        most_pairs = float(pairs[-1, -1])
        return (pairs / most_pairs if most_pairs > 0 else np.ones_like(pairs)), most_pairs

    def snapshot(self) -> bytes:
        """Return the whole state."""
        own = [self._by_delay, self._largest, self._times, self._produced]
        return b"".join(each.tobytes() for each in own) + self._arrivals.pack()

    def restore(self, packed: bytes) -> None:
        """Become the policy that the snapshot was taken of; all settings must be the same."""
        at = 0
        for name in ("_by_delay", "_largest", "_times", "_produced"):
            like = getattr(self, name)
            part = np.frombuffer(packed, like.dtype, like.size, at)
            setattr(self, name, part.reshape(like.shape).copy())
            at += like.nbytes
        self._arrivals.unpack(packed[at:])

    def _search(self, largest: Int64s, seconds: float) -> Int64s:
        recall, pairs = self.promised(largest, seconds)
        target = step_target(self.recall, self._produced, pairs)
        rates = self._by_delay[:, ROWS].sum(axis=1)
        left, right = (self.grid[: int(most) + 1] for most in largest)
        memory = left[:, None] * rates[0] + right[None, :] * rates[1]
        enough = recall >= target
        if not enough.any():
            return largest
        where = np.unravel_index(np.argmin(np.where(enough, memory, np.inf)), memory.shape)
        return np.array(where, np.int64)

    def _begin_step(self, time_us: int) -> None:
        by = min((time_us - int(self._times[1])) // self.step_us, len(self._produced))
        by = max(by, 1) if time_us > self._times[1] else 0
        if by:
            self._produced = np.concatenate([self._produced[by:], np.zeros(by)])
            self._by_delay.fill(0.0)
            if self.reading == "recent":
                self._largest.fill(0)
        self._times[1] = time_us

    def _window(self, side: int, slacks: Int64s, rate: float) -> Float64s:
        return window_rows(
            self._by_delay[side, ROWS],
            self.grid,
            rate,
            self._window_us,
            self.basic_us,
            slacks.astype(np.float64),
        )


def window_rows(
    by_delay: Float64s, grid: Int64s, rate: float, window_us: int, basic_us: int, longer_us: Float64s
) -> Float64s:
    """Return |W|(d), the paper's (7): rows of a side in a window that is longer by each of ``longer_us``."""
    whole = max(-(-window_us // basic_us) - 1, 0)
    known = by_delay.cumsum() / max(by_delay.sum(), 1.0)
    # In time after i basic windows, i from 0.
    in_time = known[np.searchsorted(grid, np.arange(whole + 1) * basic_us, side="right") - 1]
    full = rate * basic_us / 1e6 * in_time[:whole].sum()
    rest: Float64s = rate * (window_us - whole * basic_us + longer_us) / 1e6 * in_time[whole]
    rows: Float64s = full + rest
    return rows


def step_target(recall: float, produced: Float64s, pairs_a_step: float) -> float:
    """Return the recall that the next step needs, the paper's (3); ``produced`` are the steps of the last period."""
    if pairs_a_step <= 0:
        return 1.0
    wanted = recall * pairs_a_step * len(produced) - float(produced[1:].sum())
    return min(max(wanted / pairs_a_step, 0.0), 1.0)


@njit(cache=True)
def learn_delays(
    trace: Any, window: int, width: int, grid: Any, by_delay: Any, largest: Any, arrivals: Any
) -> None:
    """Add rows to ``by_delay``, sides x 3 x bins, and raise the largest delay of each side."""
    granules, counts = arrivals
    per_us = 1.0 / grid[1]
    for index in range(len(trace)):
        row = trace[index]
        side = row.side
        delay = 0 if row.newest == NO_TIME else max(0, row.newest - row.ts)
        largest[side] = max(largest[side], delay)
        # A delay of (D g, (D + 1) g] is covered by a slack of (D + 1) g: one microsecond less than a need.
        where = bin_of(grid, delay - 1, per_us)
        low, high = max(row.ts - window, row.horizon + 1), row.ts + window
        by_delay[side, ROWS, where] += 1.0
        by_delay[side, MATCHES, where] += row.matches
        if low <= high:
            by_delay[side, OFFERS, where] += arrived_between(granules, counts, 1 - side, low, high, width)
        count_arrival(granules, counts, side, row.ts // width)

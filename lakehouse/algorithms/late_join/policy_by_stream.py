"""Needed slack for joins of any number of streams: how late rows of each may come and still find all their results.

A result of a batch needed the slack by which the oldest of its earlier rows had left its window, the greatest over
these rows: ``n = max(T - w_y - y.ts)``, T the stream time before the batch. It counts for the stream of its newest row,
the one that came late. With ``L_x`` the lateness of stream x, rows of stream y are held for the latest of the others:

    d_y = max(L_x of the streams x other than y)        a result of x is found if L_x >= n

so recall adds up over streams as it does over the two sides of a pair, of which each waits for the other. The rows held
depend on the greatest lateness and the second greatest alone: each stream in turn is taken for the latest, all others
share a lateness, and the two are found by the walk of pairs.

What a logged row missed is estimated from its lateness until the repair tells: as many results as rows of its stream
usually have, whose other rows are spread evenly over their windows.

Guarantee: as of ``NeededSlack``. Cost: O(slacks) a batch, and a choice for each stream; memory: as of its counts.

Source: ours; that joins of many streams need the greatest slack of their rows: Ji et al.
"""

from collections.abc import Sequence

import numpy as np

from lakehouse.algorithms.late_join.contract import Float64s, Int64s
from lakehouse.algorithms.late_join.kernels.needed_slack import cheapest
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack


class StreamSlack(NeededSlack):
    """The policy that counts, batch by batch, for streams with windows of their own.

    Args:
        windows_us: how old a row of each stream may be when the newest row of a result comes.
        recall, period_us, step_us: as ``NeededSlack`` takes them.
        spare: how many rows may be held whether they are needed or not.
    """

    def __init__(
        self, windows_us: Sequence[int], recall: float, period_us: int, step_us: int, spare: int = 0
    ) -> None:
        super().__init__(recall, period_us, step_us, spare=spare, sides=len(windows_us))
        self.windows_us = tuple(windows_us)
        self.begin(max(windows_us))

    def latest_us(self, time_us: int) -> tuple[int, ...]:
        """Return how late rows of each stream may come, by the batches learned from and what repairs have told."""
        covered, totals, share, least, rows = self._asked(time_us)
        best: tuple[float, tuple[int, ...]] = (np.inf, ())
        for stream in range(len(rows)):
            others = np.arange(len(rows)) != stream
            pooled = np.stack([covered[:, stream], covered[:, others].sum(axis=1)], axis=1)
            floors = np.array([least[stream], least[others].max(initial=0)])
            rates = np.array([rows[others].sum(), rows[stream]])
            own, rest = cheapest(pooled, totals, share, floors, rates, self.grid)
            latest = tuple(np.where(others, self.grid[rest], self.grid[own]).tolist())
            best = min(best, (float(np.dot(held_us(latest), rows)), latest))
        return best[1]

    def learn(self, time_us: int, slack_us: Sequence[int], results: Int64s, lags: Int64s) -> None:
        """Learn from a batch, both counts by stream and bin: results by the slack needed, rows by their lag behind T.

        ``time_us``: T; ``slack_us``: how long rows of each stream were held for it.
        """
        self._turn(time_us // self._quarter_us)
        self._counted[-1] += results
        self._behind[-1] += lags
        total, rows = self._counted.sum(), self._behind.sum(axis=(0, 2))
        for stream in range(len(lags)):
            others = [each for each in range(len(lags)) if each != stream]
            if lags[stream, 1:].any() and total and others:
                logged_from = np.searchsorted(self.grid, min(slack_us[each] for each in others)) + 1
                missed = self._missed_by(stream, others, int(logged_from))
                self._estimated[-1, stream, 1:-1] += total / rows[stream] * lags[stream, 1:-1] @ missed

    def _missed_by(self, stream: int, others: Sequence[int], logged_from: int) -> Float64s:
        """Return by the bin of a row's lag, from 1, which share of its results needed the slack of each bin."""
        lag, slack = self.grid[1:, None].astype(np.float64), self.grid[None, :].astype(np.float64)
        within = np.ones((len(self.grid) - 1, len(self.grid)))
        for other in others:
            reach = self.windows_us[stream] + self.windows_us[other]
            within *= np.clip((slack - lag + reach) / max(reach, 1), 0.0, 1.0)
        missed: Float64s = np.diff(within, axis=1)
        bins = np.arange(1, len(self.grid))
        missed[:, bins < logged_from] = 0.0
        return missed


def held_us(latest_us: Sequence[int]) -> tuple[int, ...]:
    """Return how much longer than its window rows of each stream are held for the others, the latest of them.

    >>> held_us([60, 5, 0]), held_us([60, 0]), held_us([60])
    ((5, 60, 60), (0, 60), (0,))
    """
    return tuple(
        max((late for other, late in enumerate(latest_us) if other != stream), default=0)
        for stream in range(len(latest_us))
    )

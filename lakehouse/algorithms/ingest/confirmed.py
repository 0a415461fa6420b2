"""The confirmed newest time of a stream: what one wrong clock cannot move.

    reached      by a batch: from the median of its event times on, in steps of at most ``step_us``
    confirmed    by a stream: the greatest time that its batches have reached in steps of at most ``step_us``; one that
                 is further ahead is held, until the next batch that accepts rows has reached beyond that step too

Rows that are further ahead than a step, and are at most half of a batch, move neither. A batch of such rows alone moves
nothing until a second one follows at once; then the lesser of their two times counts. So a gap after an outage holds
the confirmed time back for one batch. What deletes rows or nodes follows it, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

# A first batch of that many rows is enough.
FEW = 3


@dataclass(frozen=True)
class Reach:
    """The event times of a batch, summed up by spans of ``step_us``: how many, the earliest and the latest of each.

    Cost: a sort of the times that are added together; memory: a few numbers for each span that has a row.
    """

    step_us: int
    spans: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, times: npt.NDArray[np.int64]) -> Reach:
        """Add event times; return this object."""
        ordered = np.sort(times)
        spans = ordered // self.step_us
        edges = [*np.flatnonzero(np.diff(spans, prepend=spans[:1] - 1)).tolist(), len(ordered)]
        for low, high in pairwise(edges):
            number, first, last = int(spans[low]), int(ordered[low]), int(ordered[high - 1])
            count, earliest, latest = self.spans.get(number, (0, first, last))
            self.spans[number] = (count + high - low, min(first, earliest), max(last, latest))
        return self

    @property
    def newest_us(self) -> int | None:
        """The time that the batch has reached; None without rows.

        >>> Reach(10).add(np.array([1, 5, 14, 99])).newest_us
        14
        """
        half, seen, found = (sum(count for count, _, _ in self.spans.values()) + 1) // 2, 0, None
        for number in sorted(self.spans):
            count, earliest, latest = self.spans[number]
            # Within one span any two times are less than a step apart.
            if found is not None and earliest - found > self.step_us:
                break
            if seen + count >= half:
                found = latest
            seen += count
        return found


def confirmed(
    before: tuple[int | None, int | None], reached_us: int | None, rows: int, step_us: int, least_us: int
) -> int | None:
    """Return a stream's confirmed newest time after a batch of so many accepted rows; None before the first row.

    ``before``: what was confirmed before the batch, and what the batch with rows before it had reached. ``least_us``
    counts as confirmed while nothing else does: no row can be older.
    """
    newest_us, earlier_us = before
    if reached_us is None:
        return newest_us
    if earlier_us is None:
        return reached_us if rows >= FEW else least_us
    start = least_us if newest_us is None else newest_us
    if reached_us <= start + step_us:
        return max(start, reached_us)
    return max(start, min(reached_us, earlier_us)) if earlier_us > start + step_us else start

"""Freshness: time of rows from their arrival to the published answer, over the last batches.

One sample is one ingest batch: from when its newest row arrived to when a version that holds it was there.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

SAMPLES = 100


def quantile(values: Iterable[float], share: float) -> float | None:
    """Return the smallest value that at least ``share`` of the values are not above; None of none.

    >>> quantile([4.0, 1.0, 3.0, 2.0], 0.5), quantile([4.0, 1.0, 3.0, 2.0], 0.95), quantile([], 0.5)
    (2.0, 4.0, None)
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


@dataclass
class Freshness:
    """The last samples of one stream; ``through`` is the last batch that was published."""

    through: int
    samples: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def unmeasured(self, through: int) -> range:
        """Return the batches that came with a version which holds those up to ``through``, at most ``SAMPLES``."""
        return range(max(self.through, through - SAMPLES) + 1, through + 1)

    def add(self, through: int, arrived_s: Sequence[float | None], now_s: float) -> None:
        """Note that batches up to ``through`` were published now; arrivals by the same clock, None if unknown."""
        self.through = max(self.through, through)
        self.samples.extend(max(0.0, now_s - arrived) for arrived in arrived_s if arrived is not None)

    def snapshot(self) -> dict[str, float | int | None]:
        """Return the last sample, the median and the 95th percentile in seconds, and of how many batches."""
        last = self.samples[-1] if self.samples else None
        figures = {
            "last_s": last,
            "p50_s": quantile(self.samples, 0.5),
            "p95_s": quantile(self.samples, 0.95),
        }
        rounded = {name: None if value is None else round(value, 3) for name, value in figures.items()}
        return {"published_batch": self.through, **rounded, "batches": len(self.samples)}

"""Recall of every period from the times of all pairs: the yardstick of ``periods_of_steps``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.late_join.audit import Periods

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Int64s


def audit(
    online_us: Int64s,
    repaired_us: Int64s,
    period_us: int,
    step_us: int,
    span_us: tuple[int, int] | None = None,
) -> Periods:
    """Return every period between the first and the last pair, from the event times of pairs.

    ``span_us`` are the ends of event time when known otherwise; a stream shorter than a period is one period.

    Raises:
        ValueError: the period is not a positive multiple of the step.
    """
    if step_us < 1 or period_us < step_us or period_us % step_us:
        raise ValueError(
            f"expected a period that is a multiple of the step, found {period_us} and {step_us} us"
        )
    ends = np.concatenate([online_us, repaired_us])
    if span_us is None and len(ends) == 0:
        none = np.empty(0, np.int64)
        return Periods(none, none, none)
    start, end = span_us or (int(ends.min()), int(ends.max()) + 1)
    first = start // step_us
    steps = max(-(-end // step_us) - first, 1)
    online, repaired = (
        np.bincount(times // step_us - first, minlength=steps)[:steps] for times in (online_us, repaired_us)
    )
    return periods_of(online + repaired, online, first * step_us, period_us, step_us)


def periods_of(pairs: Int64s, online: Int64s, start_us: int, period_us: int, step_us: int) -> Periods:
    """Return the sliding periods of counts that are given by step."""
    width = min(period_us // step_us, len(pairs))
    sliding = [
        np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
        for counts in (pairs, online)
    ]
    whole, found = (sums[width:] - sums[:-width] for sums in sliding)
    return Periods(start_us + np.arange(len(whole)) * step_us, whole, found)

"""Event times of rows: regular schedules of devices, irregular ones of a network link, and the gaps in both.

device 1   x  x  x  x  .  .  .  x  x  x      a device is silent for a while, the others go on
device 2    x  x  x  x  x  x  x  x  x  x
link       xx x   xxx x . . . . .  x xx      the link's recorder is down: nothing of any host
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lakehouse.config.problems import ConfigError, Problem

Ints = npt.NDArray[np.int64]
LONGEST_GAP = 60


@dataclass(frozen=True)
class Timeline:
    """Rows in order of event time, the source that each belongs to, and how many rows the gaps swallowed."""

    event_us: Ints
    source: Ints
    withheld: int


def regular(
    rng: np.random.Generator, rows: int, duration_us: int, sources: int, gaps: float, tick_us: int
) -> Timeline:
    """Let each source report at a steady pace with some jitter; no source has two rows at one tick.

    Raises ConfigError when the pace leaves no room between two rows of a source.
    """
    slots = _slots(rows, gaps)
    per_source = -(-slots // sources)
    period_us = duration_us // per_source
    if period_us < 10 * tick_us:
        request = f"{rows} rows of {sources} devices in {duration_us} us"
        raise ConfigError(
            "simulate", [Problem("rows", request, f"{10 * tick_us} us or more between a device's rows")]
        )
    source, slot = np.divmod(_kept(rng, slots, rows), per_source)
    phase = rng.integers(0, period_us // 2, sources)
    jitter = rng.integers(0, max(period_us // 4, 1), len(source))
    event_us = (slot * period_us + phase[source] + jitter) // tick_us * tick_us
    order = np.argsort(event_us, kind="stable")
    return Timeline(event_us[order], source[order], slots - rows)


def irregular(
    rng: np.random.Generator, rows: int, duration_us: int, sources: int, gaps: float, tick_us: int
) -> Timeline:
    """Let rows happen at random, a few sources far more often than the rest; a gap silences all of them.

    Raises ConfigError when there are more rows than microseconds.
    """
    slots = _slots(rows, gaps)
    if slots > duration_us:
        request = f"{slots} rows in {duration_us} us"
        raise ConfigError("simulate", [Problem("rows", request, "no more rows than microseconds")])
    moments = np.sort(rng.integers(0, duration_us, slots)) // tick_us * tick_us
    kept = np.sort(_kept(rng, slots, rows))
    source = heavy_choice(rng, sources, rows)
    return Timeline(moments[kept], source, slots - rows)


def heavy_choice(rng: np.random.Generator, among: int, count: int) -> Ints:
    """Draw numbers below ``among`` whose frequencies fall as one over their rank."""
    weights = 1.0 / np.arange(1, among + 1)
    edges = np.cumsum(weights) / weights.sum()
    drawn: Ints = np.minimum(np.searchsorted(edges, rng.random(count)), among - 1).astype(np.int64)
    return drawn


def _slots(rows: int, gaps: float) -> int:
    return int(np.ceil(rows / (1.0 - gaps)))


def _kept(rng: np.random.Generator, slots: int, rows: int) -> npt.NDArray[Any]:
    """Return exactly ``rows`` of the slots, leaving the others out in runs of up to ``LONGEST_GAP``."""
    withheld = slots - rows
    if not withheld:
        return np.arange(slots)
    length = max(1, min(LONGEST_GAP, withheld, slots // 20))
    starts = rng.permutation(-(-slots // length)) * length
    runs = (starts[:, np.newaxis] + np.arange(length)).ravel()
    silent = runs[runs < slots][:withheld]
    keep = np.ones(slots, dtype=bool)
    keep[silent] = False
    return np.flatnonzero(keep)

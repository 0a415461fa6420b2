"""Delays of rows: by a distribution, by measured delays, and with an exact share of late rows where one is asked.

A row is late when a usable row with a later event time arrived before it.

    event     1  2  3  4  5
    arrives   1     3  4 2 5       row 2 waits until 4 is in: late. Rows that do not wait are never late.
"""

import numpy as np
import numpy.typing as npt

from lakehouse.simulator.plan import Delay
from lakehouse.simulator.timeline import Ints

# Share of rows, milliseconds from event to arrival of 16,954 LoRaWAN frames of mobile field testers (CampusIoT,
# 2021-2023), milliseconds from start to end, when the record is written, of 7,998 connections of an office (M57, 2009).
_MEASURED = """
    0       380.0           0.0
    0.01    479.5           0.01
    0.05    483.0           0.2
    0.1     609.0           6.4
    0.25    704.0          29.7
    0.5     795.0         216.8
    0.75    911.0        2249.1
    0.9    1088.0       18435.5
    0.95   1354.3       63689.4
    0.99   4149.7      248194.9
    0.995 28112.8      253522.4
    0.999 229284.2     382572.4
    0.9999 501124.7  30432735.0
    1     2916612.0  64380000.0
"""
QUANTILES, RADIO_MS, CONNECTION_MS = np.array(_MEASURED.split(), float).reshape(-1, 3).T
_PARETO_SHAPE = 1.5


def draw(
    rng: np.random.Generator, delay: Delay, measured_ms: npt.NDArray[np.float64], count: int, tick_us: int
) -> Ints:
    """Return ``count`` delays in microseconds, whole ticks, none above the delay's maximum."""
    if delay.kind == "none":
        return np.zeros(count, np.int64)
    if delay.kind == "exponential":
        drawn = rng.exponential(delay.mean_us, count)
    elif delay.kind == "pareto":
        least = delay.mean_us * (_PARETO_SHAPE - 1) / _PARETO_SHAPE
        drawn = least * (1 + rng.pareto(_PARETO_SHAPE, count))
    else:
        drawn = 1000 * np.interp(rng.random(count), QUANTILES, measured_ms)
    whole: Ints = np.minimum(drawn, delay.max_us).astype(np.int64) // tick_us * tick_us
    return whole


def exactly_late(
    rng: np.random.Generator,
    event_us: Ints,
    delays: Ints,
    usable: npt.NDArray[np.bool_],
    share: float,
    tick_us: int,
) -> Ints:
    """Return delays that make ``round(share * usable rows)`` of the usable rows late, and no other row.

    ``event_us`` is sorted. Each late row waits at least until the next usable row that does not wait has arrived,
    longer than the delay drawn for it where that is needed. Fewer rows are late only where all that could be are.
    """
    places = np.flatnonzero(usable)
    if not len(places):
        return np.zeros_like(delays)
    able = places[event_us[places] < event_us[places[-1]]]
    late = np.sort(rng.permutation(able)[: round(share * len(places))])
    on_time = np.setdiff1d(places, late, assume_unique=True)
    follower = on_time[np.searchsorted(event_us[on_time], event_us[late], side="right")]
    result = np.zeros_like(delays)
    result[late] = np.maximum(delays[late], event_us[follower] - event_us[late] + tick_us)
    return result

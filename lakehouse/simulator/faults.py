"""Broken, repeated and contradicted rows, and what an ingest should make of each.

    dirt         what the line looks like                       what becomes of it
    garbage      a device's console output                      quarantine, malformed
    truncated    a line cut off                                 quarantine, malformed
    bad_utf8     bytes that are not UTF-8                       quarantine, bad_utf8
    wrong_type   a word where a number belongs                  quarantine, bad_value
    no_time      no event time                                  quarantine, no_event_time
    nan          NaN for a measure                              accepted, the measure is missing
    null         null, or NA in csv, for a measure              accepted, the measure is missing
    bad_clock    an event time 2.6 years back                   quarantine, clock
    repeat       the same row again, received later             a duplicate
    conflict     the same identity with another measure, later  quarantine, conflict

Every row is at most one of these, and the counts are exact.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakehouse.simulator.plan import Faults
from lakehouse.simulator.timeline import Ints

DIRT = ("garbage", "truncated", "bad_utf8", "wrong_type", "no_time", "nan", "null")
CLEAN, BAD_CLOCK, CONFLICT = 0, len(DIRT) + 1, len(DIRT) + 2
KINDS = ("clean", *DIRT, "bad_clock", "conflict")
REASONS = {
    "garbage": "malformed",
    "truncated": "malformed",
    "bad_utf8": "bad_utf8",
    "wrong_type": "bad_value",
    "no_time": "no_event_time",
    "bad_clock": "clock",
    "conflict": "conflict",
}
CLOCK_BEHIND_US = 80_900_000_000_000
_USABLE = np.array([kind not in REASONS for kind in KINDS])


@dataclass(frozen=True)
class Fates:
    """Fate of each row: its kind (an index into ``KINDS``), and the rows that get a second, later copy."""

    kind: Ints
    repeated: Ints
    contradicted: Ints


def decide(rng: np.random.Generator, rows: int, faults: Faults) -> Fates:
    """Choose at random which rows get which fault; dirt is spread evenly over its kinds."""
    shares = (faults.bad_clocks, faults.dirt, faults.duplicates, faults.conflicts)
    ends = np.minimum(np.cumsum([round(share * rows) for share in shares]), rows)
    clocks, dirty, repeated, contradicted = np.split(rng.permutation(rows), ends)[:4]
    kind = np.full(rows, CLEAN, np.int64)
    kind[clocks] = BAD_CLOCK
    kind[dirty] = 1 + np.arange(len(dirty)) % len(DIRT)
    return Fates(kind, np.sort(repeated), np.sort(contradicted))


def is_usable(kind: Ints) -> npt.NDArray[np.bool_]:
    """Return which rows an ingest can accept."""
    usable: npt.NDArray[np.bool_] = _USABLE[kind]
    return usable

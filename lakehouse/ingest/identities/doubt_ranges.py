"""Rows that answers cannot be sure of, made into ranges of time: how many, and between which values; see home/doubtful.

What ranges say stays true when they are joined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.ingest.double_hour import DAY_US, double_hours
from lakehouse.config.stream import Stream
from lakehouse.storage.doubtful import AMBIGUOUS, ROWS

_WHOLE_DOUBLES = 2.0**53
Range = dict[str, Any]
# Values of a measure as doubles, NaN for none, and whether all are whole.
Values = tuple[npt.NDArray[np.float64], bool]


def ambiguous_ranges(parsed: pa.Table, stream: Stream, batch: int) -> list[Range]:
    """Return the ranges of rejected rows whose local time comes twice, from the first of its moments to the second."""
    rows = parsed.filter(pc.equal(parsed["reason"], AMBIGUOUS).fill_null(False))
    if not rows.num_rows:
        return []
    event, values = rows["event_us"].to_numpy(), values_of(rows, stream)
    ranges = list[Range]()
    for day in np.unique(event // DAY_US):
        inside = event // DAY_US == day
        hours = double_hours(stream.event_time.timezone, event[inside])
        # A change by less than minutes is no double hour there, and no change is by more than a day.
        apart = max((hour.end_us - hour.begin_us for hour in hours), default=DAY_US)
        same = {"batch": batch, "reason": AMBIGUOUS}
        ranges += [
            same | one | {"to_us": one["to_us"] + apart} for one in ranges_within(event, inside, values)
        ]
    return ranges


def joined_by_day(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges of which those of one measure that begin on one day of UTC are one."""
    return joined(ranges, lambda one: one["from_us"] // DAY_US)


def joined(ranges: Iterable[Range], group: Callable[[Range], int]) -> list[Range]:
    """Return one range for all of the same group, reason and measure."""
    same: dict[tuple[int, str, str], list[Range]] = {}
    for one in ranges:
        same.setdefault((group(one), one["reason"], one["measure"]), []).append(one)
    return [_joined(each) for each in same.values()]


def ranges_within(
    event: npt.NDArray[np.int64],
    inside: npt.NDArray[np.bool_],
    values: Mapping[str, Values],
) -> list[Range]:
    """Return the range of some rows: for the rows themselves, and for each measure that has values in it."""
    ends = {"from_us": int(event[inside].min()), "to_us": int(event[inside].max())}
    nothing = {"below": 0.0, "above": 0.0, "least": None, "greatest": None}
    ranges: list[Range] = [{"measure": ROWS, **ends, "n": int(inside.sum()), **nothing}]
    for name, (doubles, is_whole) in values.items():
        some = doubles[inside & ~np.isnan(doubles)]
        if len(some):
            below, above = float(some[some < 0].sum()), float(some[some > 0].sum())
            is_exact = is_whole and max(-below, above) < _WHOLE_DOUBLES
            rounds = 0 if is_exact else len(some)
            least, greatest = float(some.min()), float(some.max())
            if not is_exact:
                least, greatest = math.nextafter(least, -math.inf), math.nextafter(greatest, math.inf)
            ranges.append(
                {"measure": name, **ends, "n": len(some), "least": least, "greatest": greatest}
                | {"below": _outward(below, rounds), "above": _outward(above, rounds)}
            )
    return ranges


def values_of(rows: pa.Table, stream: Stream) -> dict[str, Values]:
    """Return the values of each measure."""
    return {name: (_doubles(rows[name]), _is_whole(rows[name])) for name in stream.measures}


def _joined(ranges: Sequence[Range]) -> Range:
    """Return one range for all; sums of doubles are moved outward by what rounding can do."""
    first = min(ranges, key=lambda each: (each["batch"], each["from_us"]))
    if len(ranges) == 1:
        return first
    return {
        "batch": first["batch"],
        "reason": first["reason"],
        "measure": first["measure"],
        "from_us": min(each["from_us"] for each in ranges),
        "to_us": max(each["to_us"] for each in ranges),
        "n": sum(each["n"] for each in ranges),
        "below": _outward(math.fsum(each["below"] for each in ranges), 1),
        "above": _outward(math.fsum(each["above"] for each in ranges), 1),
        "least": min((each["least"] for each in ranges if each["least"] is not None), default=None),
        "greatest": max((each["greatest"] for each in ranges if each["greatest"] is not None), default=None),
    }


def _outward(total: float, rounds: int) -> float:
    """Return a sum of values of one sign, made larger by what adding so many can lose."""
    if not rounds or (total.is_integer() and abs(total) < _WHOLE_DOUBLES):
        return total
    return total * (1 + (rounds + 4) * 2.0**-52)


def _doubles(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Return the values as doubles, NaN for none."""
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)


def _is_whole(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_integer(column.type))

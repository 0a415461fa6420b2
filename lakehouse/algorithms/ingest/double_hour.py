"""Passes of the hour that local clocks show twice, as the order of a file's rows shows them.

When clocks are put back, local times come twice: a first pass with the old offset, a second with the new one. A logger
that writes rows as they happen steps back once between the two. Only that is taken as shown: a source's rows, in the
order of the file, step back exactly once around the double hour, inside it, by at least half of the shift. For rows in
true order every pass that is given is right; a smaller step may as well be two rows that changed places.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.ingest.zones import zone_of

UNKNOWN, FIRST, SECOND = 0, 1, 2
# Around the double hour, times must not step back either.
AROUND_US = 3_600_000_000
DAY_US = 24 * AROUND_US
_MINUTE_US = 60_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY, _LAST_DAY = -25_000, 376_000
Times = npt.NDArray[np.int64]
Passes = npt.NDArray[np.int8]


class DoubleHour(NamedTuple):
    """Local times that come twice: from ``begin_us`` to before ``end_us``, and the offset of each pass."""

    begin_us: int
    end_us: int
    offsets_us: tuple[int, int]


def double_hours(zone: str, wall_us: Times) -> list[DoubleHour]:
    """Return the double hours of a zone within a day of some local times, in order.

    Cost: a look at each distinct day, remembered.
    """
    days = np.unique(wall_us // DAY_US)
    near = np.unique(np.concatenate([days - 2, days - 1, days, days + 1]))
    inside = near[(near > _FIRST_DAY) & (near < _LAST_DAY)].tolist()
    return [hour for day in inside if (hour := _put_back(zone, day)) is not None]


def passes(source: Times, wall_us: Times, hour: DoubleHour) -> Passes:
    """Return the pass of each row, UNKNOWN outside the double hour and where the order does not show it.

    ``source``: a number per row, the same for rows that stand in one order. ``wall_us``: local times. Rows stand in
    the order of their file.
    """
    known = np.zeros(len(wall_us), np.int8)
    if not len(wall_us):
        return known
    begin, end, _ = hour
    order = np.argsort(source, kind="stable")
    group = np.unique(source[order], return_inverse=True)[1].reshape(-1)
    # How far away a time is does not matter, only on which side.
    wall = np.clip(wall_us[order], begin - AROUND_US, end + AROUND_US)
    is_double = (wall >= begin) & (wall < end)
    step, is_same = np.diff(wall), np.diff(group) == 0
    is_back = np.append(False, is_same & (step < 0))
    is_shown = np.append(False, is_double[1:] & is_double[:-1] & (step <= -((end - begin) // 2))) & is_back
    once = (np.bincount(group[is_back], minlength=group[-1] + 1) == 1) & (
        np.bincount(group[is_shown], minlength=group[-1] + 1) == 1
    )
    # A group with one step back is behind it where more steps were counted than before the group began.
    steps = np.cumsum(is_back)
    first_of_group = np.searchsorted(group, group)
    is_behind = steps > steps[first_of_group]
    known[order] = np.where(once[group] & is_double, np.where(is_behind, SECOND, FIRST), UNKNOWN)
    return known


@lru_cache(maxsize=4096)
def _put_back(zone: str, day: int) -> DoubleHour | None:
    """Return the double hour that begins on a day of UTC, None if there is none of whole minutes."""
    low, high = day * DAY_US, (day + 1) * DAY_US
    before, after = _offset(zone, low), _offset(zone, high)
    if before <= after or before % _MINUTE_US or after % _MINUTE_US:
        return None
    while high - low > 1_000_000:
        middle = (low + high) // 2_000_000 * 1_000_000
        low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
    return DoubleHour(high + after, high + before, (before, after))


def _offset(zone: str, moment_us: int) -> int:
    moment = (_EPOCH + timedelta(microseconds=moment_us)).astimezone(zone_of(zone))
    offset = moment.utcoffset()
    assert offset is not None, "a time in a zone"
    return offset // timedelta(microseconds=1)

"""Passes of a double hour row by row, as the rule's sentence gives them: the yardstick of ``ingest/double_hour.py``."""

from __future__ import annotations

from lakehouse.algorithms.ingest.double_hour import FIRST, SECOND, UNKNOWN, DoubleHour

HOUR_US = 3_600_000_000


def passes_by_row(rows: list[tuple[int, int]], hour: DoubleHour) -> list[int]:
    """Return the pass of each row, a source and a local time, in the order of its file."""
    found = [UNKNOWN] * len(rows)
    for source in {each for each, _ in rows}:
        mine = [place for place, (each, _) in enumerate(rows) if each == source]
        step = _only_step([rows[place][1] for place in mine], hour)
        if step is None:
            continue
        for n, place in enumerate(mine):
            if hour.begin_us <= rows[place][1] < hour.end_us:
                found[place] = FIRST if n < step else SECOND
    return found


def _only_step(times: list[int], hour: DoubleHour) -> int | None:
    """Return which of a source's rows comes after the step back that shows the passes."""
    low, high = hour.begin_us - HOUR_US, hour.end_us + HOUR_US
    # Further away, only the side counts.
    near = [min(max(time, low), high) for time in times]
    backs = [n for n in range(1, len(near)) if near[n] < near[n - 1]]
    if len(backs) != 1:
        return None
    earlier, later = near[backs[0] - 1], near[backs[0]]
    is_inside = hour.begin_us <= later and earlier < hour.end_us
    return backs[0] if is_inside and 2 * (earlier - later) >= hour.end_us - hour.begin_us else None

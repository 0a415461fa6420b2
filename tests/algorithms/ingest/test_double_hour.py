"""Passes of the double hour: right or unknown for every file in order, and known where a logger's rows step back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.ingest.double_hour import FIRST, SECOND, UNKNOWN, DoubleHour, double_hours, passes
from tests.oracles.ingest.double_hour_by_row import passes_by_row

ZONES = {
    "Europe/Berlin": (datetime(2026, 10, 25, 1, tzinfo=UTC), 60),
    "Australia/Lord_Howe": (datetime(2025, 4, 5, 15, tzinfo=UTC), 30),
    # The hour before midnight comes twice.
    "America/Santiago": (datetime(2026, 4, 5, 3, tzinfo=UTC), 60),
}


def local(zone: str, moments: Sequence[datetime]) -> list[int]:
    """Return local times in microseconds, one by one."""
    walls = [moment.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC) for moment in moments]
    return [round(wall.timestamp()) * 1_000_000 for wall in walls]


def hour_of(zone: str) -> DoubleHour:
    (hour,) = double_hours(zone, np.array(local(zone, [ZONES[zone][0]])))
    return hour


@pytest.mark.parametrize("zone", ZONES)
def test_the_double_hour_of_a_zone_is_where_its_clocks_say(zone: str) -> None:
    change, shift = ZONES[zone]
    before, at = change - timedelta(minutes=shift), change + timedelta(minutes=shift)
    offsets = tuple(m.astimezone(ZoneInfo(zone)).utcoffset() for m in (before, change))
    begin, end = (local(zone, [each])[0] for each in (before, at))
    expected = DoubleHour(begin, end, tuple(round(o.total_seconds()) * 10**6 for o in offsets if o))  # type: ignore[arg-type]
    assert hour_of(zone) == expected
    assert double_hours(zone, np.array([begin + 10 * 86_400_000_000])) == []


moments = st.tuples(st.integers(0, 2), st.integers(-150, 150))


@pytest.mark.parametrize("zone", ZONES)
@given(st.lists(moments, max_size=40))
def test_no_row_of_a_file_in_order_gets_the_wrong_pass(zone: str, rows: list[tuple[int, int]]) -> None:
    change, hour = ZONES[zone][0], hour_of(zone)
    rows = sorted(rows, key=lambda row: row[1])
    walls = local(zone, [change + timedelta(minutes=minutes) for _, minutes in rows])
    found = passes(np.array([s for s, _ in rows], np.int64), np.array(walls, np.int64), hour)
    for (_, minutes), wall, known in zip(rows, walls, found.tolist(), strict=True):
        is_double = hour.begin_us <= wall < hour.end_us
        assert known in ((UNKNOWN, SECOND if minutes >= 0 else FIRST) if is_double else (UNKNOWN,))


@pytest.mark.parametrize("zone", ZONES)
@given(st.lists(moments, max_size=12), st.booleans())
def test_rows_in_any_order_get_what_the_rule_says(
    zone: str, rows: list[tuple[int, int]], is_nearly_sorted: bool
) -> None:
    change, hour = ZONES[zone][0], hour_of(zone)
    if is_nearly_sorted:
        rows = sorted(rows, key=lambda row: row[1] // 20)
    walls = local(zone, [change + timedelta(minutes=minutes) for _, minutes in rows])
    sources = np.array([s for s, _ in rows], np.int64)
    found = passes(sources, np.array(walls, np.int64), hour)
    assert found.tolist() == passes_by_row([(s, w) for (s, _), w in zip(rows, walls, strict=True)], hour)


@pytest.mark.parametrize(
    ("minutes", "is_known"),
    [
        ([-15, 0, 15, 30, 45, 0, 15, 30, 45, 60], True),
        # The second pass alone, or the first alone.
        ([0, 15, 30, 45, 60], False),
        # As far back as two rows that changed places.
        ([0, 15, 30, 15, 30, 45], False),
        # Every hour.
        ([-60, 0, 0, 60], False),
        # Sent twice.
        ([0, 15, 30, 45, 0, 15, 30, 45, 0, 15, 30, 45], False),
        # From behind the hour.
        ([0, 30, 75, 0, 30], False),
        ([0, 30, 600, 0, 30], False),
        ([0, 30, 0, 30, 75, 70], False),
        # What happens further away does not matter.
        ([-200, -300, 0, 30, 0, 30, 300, 200], True),
    ],
)
def test_one_step_back_of_half_the_shift_shows_the_passes(minutes: list[int], is_known: bool) -> None:
    hour = hour_of("Europe/Berlin")
    walls = np.array([hour.begin_us + each * 60_000_000 for each in minutes])
    found = passes(np.zeros(len(walls), np.int64), walls, hour)
    assert bool(found.any()) is is_known
    assert is_known == bool(set(found.tolist()) >= {FIRST, SECOND})

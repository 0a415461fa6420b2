from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.levels import (
    KEPT_FOREVER_US,
    Level,
    floor_to,
    horizon,
    horizons,
    validate_levels,
)

LEVELS = [Level(1, 6), Level(3, 24), Level(12, None)]
WHEN = st.integers(-(10**15), 10**15)


@given(width_us=st.integers(1, 10**9), time_us=WHEN)
def test_a_floor_is_the_multiple_at_or_before_the_time(width_us: int, time_us: int) -> None:
    floor = floor_to(width_us, time_us)

    assert floor % width_us == 0
    assert floor <= time_us < floor + width_us


def test_a_horizon_is_aligned_to_the_width_of_the_parent() -> None:
    # newest 20: level 1 reaches back to 14, a parent starts at 12; level 2 to -4, its parent at -12
    assert horizons(LEVELS, 20) == [12, -12, KEPT_FOREVER_US]


def test_the_last_level_is_aligned_to_its_own_width() -> None:
    assert horizon(1, [Level(1, 5), Level(5, 20)], 38) == 15


@given(earlier=WHEN, later=WHEN)
def test_a_horizon_never_moves_back(earlier: int, later: int) -> None:
    before, after = horizons(LEVELS, min(earlier, later)), horizons(LEVELS, max(earlier, later))

    assert all(old <= new for old, new in zip(before, after, strict=True))


@given(newest=WHEN)
def test_a_coarser_level_reaches_at_least_as_far_back(newest: int) -> None:
    found = horizons(LEVELS, newest)

    assert found == sorted(found, reverse=True)


@given(newest=WHEN)
def test_a_level_keeps_at_least_the_time_that_it_declares(newest: int) -> None:
    found = horizons(LEVELS, newest)

    assert found[0] <= newest - 6
    assert found[1] <= newest - 24


@pytest.mark.parametrize(
    "levels",
    [
        [Level(60, None)],
        [Level(60, 10)],
        LEVELS,
        [Level(1, 3600), Level(60, 172_800), Level(3600, 31_536_000)],
    ],
)
def test_levels_that_nest_have_no_problems(levels: list[Level]) -> None:
    assert validate_levels(levels) == []


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "levels: found none; expected at least one"),
        ([Level(0, None)], "level 1: found width 0 us; expected more than 0 us"),
        ([Level(1, 0)], "level 1: found keep 0 us; expected more than 0 us, or forever"),
        ([Level(4, 90), Level(6, None)], "level 2: found width 6 us; expected a multiple of level 1, 4 us"),
        ([Level(4, 90), Level(4, None)], "level 2: found width 4 us; expected wider than level 1, 4 us"),
        ([Level(4, 90), Level(2, None)], "level 2: found width 2 us; expected wider than level 1, 4 us"),
        (
            [Level(1, 59), Level(60, None)],
            "level 1: found keep 59 us; expected at least 60 us, one whole node of level 2",
        ),
        (
            [Level(1, None), Level(60, None)],
            "level 1: found keep forever; expected a limit, only the last may have none",
        ),
        (
            [Level(1, 90), Level(60, 90)],
            "level 2: found keep 90 us; expected longer than level 1, 90 us",
        ),
    ],
)
def test_a_problem_names_its_level_what_was_found_and_what_is_expected(
    levels: list[Level], message: str
) -> None:
    assert validate_levels(levels) == [message]


def test_every_problem_is_told_at_once() -> None:
    problems = validate_levels([Level(4, 3), Level(6, 3), Level(5, None)])

    assert [problem.split(":")[0] for problem in problems] == [
        "level 2",
        "level 3",
        "level 1",
        "level 2",
        "level 2",
    ]

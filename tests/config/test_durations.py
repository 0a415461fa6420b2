from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config.durations import MICROSECONDS, format_duration, parse_duration, spelled_duration


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        *(("1us", 1), ("5ms", 5_000), ("90s", 90_000_000), ("1h", 3_600_000_000), (" 2 d ", 172_800_000_000)),
        *(
            ("4h48m", 17_280_000_000),
            ("1d 2h 3us", 93_600_000_003),
            ("1m500ms", 60_500_000),
            ("0h5s", 5_000_000),
        ),
    ],
)
def test_a_duration_is_whole_numbers_with_units(text: str, microseconds: int) -> None:
    assert parse_duration(text) == microseconds


@given(st.integers(1, 10**15))
def test_what_is_formatted_is_parsed_back(microseconds: int) -> None:
    assert parse_duration(format_duration(microseconds)) == microseconds
    assert parse_duration(spelled_duration(microseconds)) == microseconds


@given(st.integers(1, 20_000), st.sampled_from(sorted(set(MICROSECONDS) - {"w"})))
def test_the_spelling_is_never_longer_than_what_was_written(count: int, unit: str) -> None:
    assert len(format_duration(parse_duration(f"{count}{unit}"))) <= len(f"{count}{unit}")


@pytest.mark.parametrize("text", ["", "1", "s", "1.5h", "-1s", "0s", "1 month", "h30m", "1h30", "forever"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as"):
        parse_duration(text)


def test_no_time_at_all_is_a_duration_where_that_is_said() -> None:
    assert parse_duration("0s", least=0) == 0
    assert format_duration(0) == "0s"


def test_none_is_forever() -> None:
    assert format_duration(None) == "forever"


def test_weeks_are_told_in_days() -> None:
    assert format_duration(parse_duration("2w")) == "14d"

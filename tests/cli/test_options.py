from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.cli.options import WrongUsage, duration, instant, pairs


@pytest.mark.parametrize(
    ("text", "timezone", "seconds"),
    [
        ("1970-01-02", "UTC", 86_400),
        ("1970-01-01T00:00:01", "UTC", 1),
        ("1970-01-01T02:00:00+02:00", "America/New_York", 0),
        ("2026-07-01T12:00", "Europe/Paris", 1_782_900_000),
        ("2026-01-01T12:00", "Europe/Paris", 1_767_265_200),
    ],
)
def test_a_time_without_an_offset_is_taken_in_the_time_zone(text: str, timezone: str, seconds: int) -> None:
    assert instant(text, timezone, "--from") == seconds * 1_000_000


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_keeps_every_microsecond(moment: datetime) -> None:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)

    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    assert instant(moment.isoformat(), "Europe/Paris", "--from") == microseconds


def test_a_text_that_is_no_time_is_refused_with_an_example() -> None:
    with pytest.raises(WrongUsage, match="--to: found 'noon'; expected an ISO time such as 2026-01-05T06:00"):
        instant("noon", "UTC", "--to")


@pytest.mark.parametrize("timezone", ["Mars", "", "../etc/passwd"])
def test_an_unknown_time_zone_is_refused(timezone: str) -> None:
    with pytest.raises(WrongUsage, match="--timezone: found"):
        instant("2026-01-01", timezone, "--from")


def test_a_value_may_hold_an_equals_sign_or_nothing() -> None:
    assert pairs(["device=a=b", "room="], "--where") == {"device": "a=b", "room": ""}


@pytest.mark.parametrize("texts", [["device"], ["=x"], ["device=a", "device=b"]])
def test_a_pair_needs_a_key_once(texts: list[str]) -> None:
    with pytest.raises(WrongUsage, match=r"--where: found .* expected KEY=VALUE"):
        pairs(texts, "--where")


def test_a_duration_names_its_option_when_it_is_wrong() -> None:
    assert duration("2m", "--duration") == 120_000_000
    with pytest.raises(WrongUsage, match="--duration: found 'soon'; expected whole numbers with units"):
        duration("soon", "--duration")

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.config.durations import parse_duration
from lakehouse.config.stream import Stream

LEAST: dict[str, Any] = {
    "name": "s",
    "event_time": {"column": "ts", "unit": "s"},
    "levels": ["1m for 2d", "1d forever"],
    "source": {"path": "x/*.csv", "format": "csv"},
}


def _stream(**fields: Any) -> Stream:
    return Stream.model_validate(LEAST | fields)


def test_levels_are_widths_and_how_long_they_are_kept() -> None:
    day = parse_duration("1d")

    assert _stream().levels == (Level(60_000_000, 2 * day), Level(day, None))


def test_columns_named_elsewhere_need_no_declaration() -> None:
    stream = _stream(keys=["device"], measures=["temp"], identity=["id", "device"], columns={"co": "int"})

    assert {name: column.type for name, column in stream.all_columns.items()} == {
        "co": "int",
        "device": "string",
        "id": "string",
        "temp": "double",
    }


def test_a_declared_column_keeps_its_own_type() -> None:
    assert _stream(measures=["n"], columns={"n": "int"}).all_columns["n"].type == "int"


def test_a_record_may_identify_itself() -> None:
    stream = _stream(identity=["*"])

    assert stream.identity_is_record
    assert "*" not in stream.all_columns


def test_grouping_keys_are_those_in_use_in_the_order_of_keys() -> None:
    stream = _stream(keys=["a", "b", "c"], groupings=[["c"], ["c", "a"], []])

    assert stream.grouping_keys == ("a", "c")


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
def test_a_bound_is_the_instant_it_spells(moment: datetime) -> None:
    """A time before 1970 with a fraction of a second once came out a second off."""
    low, _ = _stream(event_time_bounds=[moment.isoformat(), "9999-12-31"]).event_time_bounds

    since = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    assert low == (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def test_bounds_may_have_an_offset_or_be_toml_dates() -> None:
    stream = _stream(event_time_bounds=["1970-01-01T01:00:00+01:00", datetime(1970, 1, 2).date()])

    assert stream.event_time_bounds == (0, 86_400_000_000)


def test_null_values_follow_the_format_unless_they_are_given() -> None:
    assert "NA" in _stream().source.nulls
    assert _stream(source={"path": "x", "format": "zeek"}).source.nulls == ()
    assert _stream(source={"path": "x", "format": "csv", "null_values": ["?"]}).source.nulls == ("?",)


@pytest.mark.parametrize("settle", [0, "0s", "5s"])
def test_files_may_be_taken_at_once_or_after_a_while(settle: int | str) -> None:
    expected = parse_duration(settle, least=0) if isinstance(settle, str) else 0

    assert _stream(source={"path": "x", "format": "csv", "settle": settle}).source.settle == expected


@pytest.mark.parametrize("value", [3, 3.5, "3", True, None, ["1d"]])
def test_a_duration_without_a_unit_is_refused(value: Any) -> None:
    """A bare number was once taken for microseconds."""
    with pytest.raises(ValidationError, match="whole numbers with units"):
        _stream(latest=value)


@pytest.mark.parametrize(
    "changed",
    [{"levels": ["1m for 2d", "1d forever", "7d forever"]}, {"groupings": [[]]}, {"measures": ["x"]}],
)
def test_the_definition_changes_with_what_rollups_depend_on(changed: dict[str, Any]) -> None:
    base = _stream(measures=["m"], groupings=[["m"]])

    assert _stream(**({"measures": ["m"], "groupings": [["m"]]} | changed)).definition() != base.definition()
    assert _stream(measures=["m"], groupings=[["m"]], latest="9d").definition() == base.definition()

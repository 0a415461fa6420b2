from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US
from lakehouse.storage.tables.rollup_table import (
    RollupSchema,
    declared_schema,
    descending,
    parse_definition,
    schema_of_properties,
)
from tests.queries.declared_streams import SECOND, stream_of

WIDTHS = ("1s", "1m", "1h", "1d")


@st.composite
def levels(draw: st.DrawFn) -> list[str]:
    widths = WIDTHS[draw(st.integers(0, 2)) :]
    keeps = draw(st.sampled_from((("2h", "3d", "2y"), ("1h", "1d", "30d"))))
    return [f"{width} for {keep}" for width, keep in zip(widths, keeps, strict=False) if width != "1d"] + [
        "1d forever"
    ]


@given(levels(), st.lists(st.sampled_from(["temp", "count", "volts"]), unique=True))
def test_a_definition_is_read_back_as_it_was_declared(
    declared_levels: list[str], measures: list[str]
) -> None:
    stream = stream_of(
        levels=declared_levels, measures=measures, groupings=[["device"], [], ["device", "room"]]
    )

    schema = parse_definition(stream.definition())

    assert schema == declared_schema(stream)
    assert (schema.levels, schema.groupings) == (stream.levels, stream.groupings)
    assert list(schema.measures) == measures


def test_floors_and_since_times_survive_the_tables_properties() -> None:
    stream = stream_of()
    schema = RollupSchema(
        stream.levels,
        stream.groupings,
        declared_schema(stream).measures,
        (7, 5, KEPT_FOREVER_US),
        {"temp": 3},
    )

    found = schema_of_properties({"tidemark.definition": stream.definition(), **schema.properties()})

    assert found == schema


def test_a_text_that_is_no_definition_is_told() -> None:
    with pytest.raises(ValueError, match=r"expected a definition .* found 'levels'"):
        parse_definition("levels")


@given(st.lists(st.integers(-100, 100), min_size=1))
def test_no_level_reaches_further_back_than_the_coarser_one(starts: list[int]) -> None:
    found = descending(starts)

    assert all(one >= other for one, other in pairwise(found))
    assert all(one >= start for one, start in zip(found, starts, strict=True))
    assert found[-1] == starts[-1]


def test_a_floor_holds_until_the_horizon_has_passed_it() -> None:
    schema = parse_definition("levels [1s for 1m, 1m for forever] groupings [] measures [temp:double:None]")
    floored = RollupSchema(schema.levels, schema.groupings, schema.measures, (600 * SECOND, KEPT_FOREVER_US))

    assert schema.horizons(630 * SECOND) == [540 * SECOND, KEPT_FOREVER_US]
    assert floored.horizons(630 * SECOND) == [600 * SECOND, KEPT_FOREVER_US]
    assert floored.horizons(800 * SECOND) == schema.horizons(800 * SECOND)
    assert floored.lacks(630 * SECOND) == ["level 1s: its nodes are kept since 1970-01-01 00:10:00 only"]
    assert floored.lacks(800 * SECOND) == []

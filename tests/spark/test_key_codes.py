"""Exact numbers of keys, compared with a comparison of all values by hand."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.spark.key_codes import key_codes
from lakehouse.spark.row_hash import xxhash64
from tests.oracles.queries.colliding_keys import INTEGERS, TEXTS


def _codes(*tables: dict[str, Any]) -> list[list[int | None]]:
    found = key_codes([pa.table(each) for each in tables])
    return [
        [None if null else code for code, null in zip(own.code.tolist(), own.is_null.tolist(), strict=True)]
        for own in found
    ]


@pytest.mark.parametrize("colliding", [INTEGERS, TEXTS], ids=["two whole numbers", "texts"])
def test_keys_whose_hashes_collide_have_different_numbers(colliding: tuple[tuple[Any, ...], ...]) -> None:
    columns = {f"k{place}": pa.array(own) for place, own in enumerate(zip(*colliding, strict=True))}
    assert len(set(xxhash64(list(columns.values()), len(colliding)).tolist())) == 1
    [codes] = _codes(columns)
    assert len(set(codes)) == len(colliding)


def test_numbers_of_different_types_are_equal_by_value() -> None:
    tens = pa.array([Decimal("1.0"), Decimal("1.5"), None], pa.decimal128(5, 1))
    [one, two, three] = _codes(
        {"a": tens},
        {"b": pa.array([1, 2**62], pa.int64())},
        {"c": pa.array([Decimal("1.50")], pa.decimal128(38, 2))},
    )
    assert one[0] == two[0] and one[1] == three[0] and one[2] is None
    assert len({one[0], one[1], two[1]}) == 3


def test_doubles_are_equal_as_comparisons_say() -> None:
    [codes] = _codes({"a": [0.0, -0.0, float("nan"), -float("nan"), 1.0]})
    assert codes[0] == codes[1] != codes[2] == codes[3] != codes[4]


def test_texts_may_be_dictionaries() -> None:
    [one, two] = _codes({"a": pa.array(["x", None, "y"]).dictionary_encode()}, {"a": ["y", "x"]})
    assert one == [two[1], None, two[0]]


def test_without_a_column_all_keys_are_equal() -> None:
    [one] = key_codes([pa.table({"a": [1, 2]}).select([])])
    assert one.code.tolist() == [0, 0] and not one.is_null.any()


_VALUES = st.tuples(
    st.sampled_from(["", "a", "b", None]),
    st.sampled_from([0, -1, 2**63 - 1, 2**53, 2**53 + 1, None]),
    st.sampled_from([Decimal("0.1"), Decimal("0.10"), Decimal(-7), None]),
)


@settings(max_examples=40, deadline=None)
@given(one=st.lists(_VALUES, max_size=12), two=st.lists(_VALUES, max_size=12))
def test_numbers_are_equal_where_all_values_are(one: list[Any], two: list[Any]) -> None:
    kinds = {"a": pa.string(), "b": pa.int64(), "c": pa.decimal128(9, 2)}
    tables = [
        pa.table(
            {name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(kinds.items())}
        )
        for rows in (one, two)
    ]
    found = key_codes(tables)
    rows = [*one, *two]
    codes = [code for own in found for code in own.code.tolist()]
    nulls = [null for own in found for null in own.is_null.tolist()]
    assert nulls == [None in row for row in rows]
    for i, (row, code) in enumerate(zip(rows, codes, strict=True)):
        for other, its in zip(rows[i:], codes[i:], strict=True):
            if None not in row and None not in other:
                assert (row == other) == (code == its)

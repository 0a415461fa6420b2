"""Numbers of values: equal if and only if the values are, whatever their hashes, and however they come and go."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.queries.aggregate import value_codes
from lakehouse.queries.aggregate.value_codes import ValueCodes
from lakehouse.spark.row_hash import xxhash64
from tests.oracles.queries.colliding_keys import INTEGERS, PAIRS_OF_TEXTS

TEXTS = [text for both in PAIRS_OF_TEXTS for text in both]
COLUMNS = {
    "texts": ([pa.string()], st.tuples(st.none() | st.sampled_from(TEXTS) | st.text(max_size=2))),
    "integers": ([pa.int64(), pa.int64()], st.sampled_from(INTEGERS) | st.tuples(*[st.integers(-1, 1)] * 2)),
    "doubles": ([pa.float64()], st.tuples(st.none() | st.sampled_from([0.0, 1.5, float("nan")]))),
    "mixed": (
        [pa.bool_(), pa.int32(), pa.decimal128(38, 2)],
        st.tuples(
            st.none() | st.booleans(),
            st.none() | st.integers(0, 2),
            st.none() | st.sampled_from([Decimal("0.10"), Decimal("12345678901234567890.25")]),
        ),
    ),
}


def table_of(rows: list[Any], kinds: list[pa.DataType]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[] for _ in kinds]
    return pa.table(
        {f"g_{n}": pa.array(own, kind) for n, (own, kind) in enumerate(zip(columns, kinds, strict=True))}
    )


def rows_of(codes: ValueCodes, numbers: Any) -> list[str]:
    columns = codes.columns(np.array(numbers, np.int64)).values()
    return [repr(row) for row in zip(*(each.to_pylist() for each in columns), strict=True)]


@pytest.mark.parametrize("seed", [value_codes._SEED, np.uint64(42)], ids=["drawn", "known"])
@pytest.mark.parametrize("kind", COLUMNS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_values_have_one_number_each_as_long_as_rows_have_them(
    kind: str, seed: np.uint64, data: st.DataObject
) -> None:
    """With Spark's seed, which everybody knows, values of one hash are compared."""
    kinds, row = COLUMNS[kind]
    codes, known = ValueCodes(), dict[str, int]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(value_codes, "_SEED", seed)
        for batch in data.draw(st.lists(st.lists(row, max_size=12), min_size=1, max_size=6)):
            numbers = codes.of(table_of(batch, kinds)).tolist()
            assert rows_of(codes, numbers) == [repr(each) for each in batch]
            for each, number in zip(batch, numbers, strict=True):
                assert known.setdefault(repr(each), number) == number
                assert (number == 0) == all(value is None for value in each)
            assert len({*known.values()}) == len(known)
            if data.draw(st.booleans()):
                kept = set(data.draw(st.lists(st.sampled_from([*known] or [""]), max_size=4)))
                known = {each: number for each, number in known.items() if each in kept}
                codes.prune(np.array([*known.values()], np.int64))
                assert len(codes) == len({*known.values()} - {0})
        assert rows_of(codes, [*known.values()]) == [*known]


def test_both_zeros_and_all_that_are_no_number_are_one_value_each() -> None:
    codes = ValueCodes()
    first = codes.of(pa.table({"k_0": [0.0, float("nan")]})).tolist()
    assert codes.of(pa.table({"k_0": [-0.0, -float("nan")]})).tolist() == first


def test_thousands_of_values_of_one_hash_are_told_apart() -> None:
    [one, two] = PAIRS_OF_TEXTS[0]
    assert len({*xxhash64([pa.array([one, two])], 2).tolist()}) == 1
    codes, many = ValueCodes(), [f"v{number}" for number in range(3000)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(value_codes, "xxhash64", lambda columns, rows, seed: np.zeros(rows, np.int64))
        first = codes.of(pa.table({"k_0": many}))
        assert len({*first.tolist()}) == len(many)
        assert (codes.of(pa.table({"k_0": many[::-1]})) == first[::-1]).all()

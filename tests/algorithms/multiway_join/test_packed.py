from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.multiway_join.contract import Vector
from lakehouse.algorithms.multiway_join.packed import pack, unpack

LARGEST = 2**32 - 1


@given(st.dictionaries(st.integers(0, LARGEST), st.integers(1, LARGEST), max_size=50))
def test_what_is_packed_comes_out_the_same(counts: dict[int, int]) -> None:
    vector = Vector.of(list(counts), list(counts.values()))

    found = unpack(pack(vector))

    assert found.entries.tolist() == vector.entries.tolist()
    assert found.counts.tolist() == vector.counts.tolist()
    assert found.sums.shape == (len(counts), 0)


def test_a_row_with_a_key_of_its_own_takes_a_byte_or_so() -> None:
    slots = np.unique(np.random.default_rng(1).integers(0, 2**20, 100_000))

    assert len(pack(Vector.of(slots, np.ones(len(slots))))) < 1.2 * len(slots)


@pytest.mark.parametrize(("entry", "count"), [(-1, 1), (LARGEST + 1, 1), (1, LARGEST + 1)])
def test_numbers_that_take_more_than_four_bytes_are_refused(entry: int, count: int) -> None:
    with pytest.raises(ValueError, match=r"expected (entries|counts) from 0 to 4294967295, found"):
        pack(Vector.of([entry], [count]))

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.multiway_join.travelling import Factorised, Flat, Travelling, matches

KEYS = st.lists(st.integers(0, 3), max_size=6)
quick = settings(max_examples=50, deadline=None)
WINDOWS = st.lists(KEYS, max_size=3)


def after(travelling: Travelling, windows: list[list[int]]) -> Travelling:
    for keys in windows:
        travelling = travelling.meet(np.array(keys, np.int64), np.arange(len(keys)))
    return travelling


@quick
@given(keys=KEYS, stored=KEYS)
def test_matches_are_all_pairs_of_equal_keys(keys: list[int], stored: list[int]) -> None:
    mine, other = matches(np.array(keys, np.int64), np.array(stored, np.int64))

    assert sorted(zip(mine.tolist(), other.tolist(), strict=True)) == [
        (one, two) for one in range(len(keys)) for two in range(len(stored)) if keys[one] == stored[two]
    ]


@quick
@given(block=KEYS, windows=WINDOWS)
def test_both_forms_come_to_the_same_results(block: list[int], windows: list[list[int]]) -> None:
    key, row = np.array(block, np.int64), np.arange(len(block))

    flat = after(Flat(key, row[:, None]), windows)
    factorised = after(Factorised(((key, row),)), windows)

    assert sorted(flat.results().tolist()) == sorted(factorised.results().tolist())
    assert factorised.size <= flat.size


def test_a_factorised_key_travels_as_its_several_rows_or_as_one() -> None:
    start = Factorised(((np.array([5, 6, 6]), np.arange(3)),))

    sizes = [after(start, [[5, 6]]).size, after(start, [[5, 6, 6, 6]]).size, after(start, [[6]]).size]

    assert sizes == [1 + 2, 1 + (2 + 3), 2]

"""Conditions over whole numbers, decimals and doubles, from the text of a query to its pairs, against exact ones."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lakehouse.queries.pairs.query import condition_in_words
from tests.queries.exact_rows import SCALES
from tests.queries.pairs.exact_conditions import asked, found, wrong

EMPTY = dict.fromkeys(SCALES) | {"id": 0, "line": 0, "event_us": 0}


def test_random_conditions_find_the_pairs_of_exact_fractions() -> None:
    assert [different for seed in range(120) if (different := wrong(seed)[1])] == []


def test_a_band_of_tenths_finds_all_its_pairs() -> None:
    """In doubles 0.4 - 0.1 is more than 0.3."""
    ones = [EMPTY | {"d": Decimal(f"{each}E-1"), "id": each, "line": each} for each in range(20)]
    rows = (ones, ones)
    pairs = found(asked("ABS(a.d - b.d) <= 0.3"), rows)
    assert pairs == [(a, b) for a in range(20) for b in range(20) if abs(a - b) <= 3]


def test_a_column_beside_a_double_is_a_double() -> None:
    row = EMPTY | {"n": 2**53 + 1, "f": 2.0**53}
    assert found(asked("a.id = b.id AND a.n <= b.f"), ([row], [row])) == [(0, 0)]
    assert found(asked("a.id = b.id AND a.n <= b.m"), ([row], [row | {"m": 2**53}])) == []


def test_bounds_are_shown_with_every_digit() -> None:
    words = condition_in_words(asked("ABS(a.d - b.e) <= 0.12345 AND a.n > b.n + 9007199254740993"))
    assert words == "|a.d - b.e| <= 0.123 and a.n > b.n + 9007199254740993"


def test_a_number_beyond_all_that_is_compared_is_refused_by_its_column() -> None:
    huge = EMPTY | {"d": Decimal("9" * 37 + ".9")}
    with pytest.raises(
        ValueError, match=r"numbers of column 'd' that are below 4.25e\+37 in units of 1e-1, found 999"
    ):
        found(asked("ABS(a.d - b.d) <= 1"), ([huge], [huge]))
    with pytest.raises(ValueError, match=r"expected values of `d` that fit DECIMAL\(38, ?18\)"):
        found(asked("ABS(a.d - b.w) <= 1"), ([huge], [huge]))

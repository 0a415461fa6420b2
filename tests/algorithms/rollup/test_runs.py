"""Sums of doubles as pairs: as good as rounded once, in any order and grouping, in Arrow's kernel and in DuckDB."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.rounding import EPS
from lakehouse.algorithms.rollup.runs import added, sum_runs
from lakehouse.serving.publish.changes import create_sums, pairs

VALUES = st.floats(-1e300, 1e300) | st.sampled_from([0.1, -0.1, 2.0**53, 1.0, -(2.0**53), 1e-300, 1e16, -0.0])
LISTS = st.lists(VALUES, min_size=1, max_size=60)
Pair = tuple[float, float]


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    create_sums(connection)
    return connection


def allowed(values: list[float]) -> Fraction:
    """3 u^2 an addition, of the sum of sizes; nothing less than the smallest double can be told."""
    sizes = sum((abs(Fraction(value)) for value in values), Fraction())
    return Fraction(3 * len(values)) * Fraction(EPS / 2) ** 2 * sizes + len(values) * Fraction(2) ** -1070


def off(found: Pair, values: list[float]) -> Fraction:
    return abs(Fraction(found[0]) + Fraction(found[1]) - sum(map(Fraction, values), Fraction()))


def whole(values: list[float]) -> Pair:
    size = len(values)
    sums, rests, is_sum = np.empty(1), np.empty(1), np.empty(1, np.bool_)
    there = np.ones(size, np.bool_)
    sum_runs(np.array([0, size], np.int32), np.array(values), np.zeros(size), there, sums, rests, is_sum)
    assert is_sum[0]
    return float(sums[0]), float(rests[0])


@settings(max_examples=300, deadline=None)
@given(LISTS, st.randoms(use_true_random=False))
def test_a_sum_is_off_by_less_than_its_bound_in_any_grouping(values: list[float], dice: object) -> None:
    assert off(whole(values), values) <= allowed(values)
    parts: list[Pair] = [(value, 0.0) for value in values]
    while len(parts) > 1:
        one, other = (parts.pop(dice.randrange(len(parts))) for _ in range(2))  # type: ignore[attr-defined]
        parts.append(added(*one, *other))
    assert off(parts[0], values) <= allowed(values)
    assert parts[0][0] == parts[0][0] + parts[0][1]


@settings(max_examples=100, deadline=None)
@given(LISTS)
def test_duckdb_adds_pairs_to_the_same_bits(engine: duckdb.DuckDBPyConnection, values: list[float]) -> None:
    query = f"SELECT totalled({pairs('x', 'c')}) FROM (SELECT unnest(?::DOUBLE[]) AS x, 0.0::DOUBLE AS c)"

    (found,) = engine.execute(query, [values]).fetchone() or ()

    assert (found["total"], found["carry"]) == whole(values)


def test_a_plain_sum_would_break_the_bound() -> None:
    values = [1.0] + [EPS / 2] * 1000

    assert off((sum(values), 0.0), values) > allowed(values)
    assert off(whole(values), values) <= allowed(values)

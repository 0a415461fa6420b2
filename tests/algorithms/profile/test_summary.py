"""Summaries of parts of a column say of the whole what all of its values say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.ingest.identity_hash import SEED, with_doubles
from lakehouse.algorithms.profile.summary import (
    BINS,
    COARSE_SHIFT,
    DISTINCT_ERROR,
    SIZE,
    NumberRuns,
    Summary,
    hashes_of,
)

NUMBERS = st.lists(st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 2)), max_size=40)


def summary(numbers: list[float], missing: int = 0) -> Summary:
    values = np.array(numbers, np.float64)
    return Summary.of(missing, with_doubles(values, np.full(len(values), SEED)).view(np.int64), values)


@given(parts=st.lists(NUMBERS, min_size=1, max_size=5), share=st.floats(0, 1))
def test_small_parts_are_combined_exactly(parts: list[list[float]], share: float) -> None:
    both = Summary.combined([summary(part, missing=1) for part in parts])
    values = np.array([each for part in parts for each in part])

    assert (both.rows, both.missing, both.count) == (len(values) + len(parts), len(parts), len(values))
    assert both.distinct == len(np.unique(values))
    if len(values):
        assert (both.low, both.high) == (values.min(), values.max())
        assert both.mean == pytest.approx(values.mean(), abs=1e-6)
        assert both.total == pytest.approx(values.sum(), abs=1e-3)
        assert both.quantile(share) == np.quantile(values, share, method="nearest")
        assert both.median == pytest.approx(np.median(values))
    if len(values) > 1:
        assert both.deviation == pytest.approx(values.std(ddof=1), abs=1e-4)


def test_large_parts_keep_their_size_and_their_stated_errors() -> None:
    numbers = np.random.default_rng(1).lognormal(0, 2, (40, 5000)).round(6)

    both = Summary.combined([summary(list(part)) for part in numbers])

    assert len(both.bins) == len(both.weights) <= BINS
    assert len(both.hashes) == SIZE
    assert sum(both.weights) == numbers.size
    for share in (0.001, 0.25, 0.5, 0.99):
        exact = np.quantile(numbers, share, method="nearest")
        assert abs(both.quantile(share) - exact) <= both.error * exact
        assert abs((numbers <= both.quantile(share)).mean() - share) <= 2 / (2 * SIZE) + 1e-4
    assert abs(both.distinct / len(np.unique(numbers)) - 1) <= 3 * DISTINCT_ERROR


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(0, 20_000), max_size=6))
def test_bins_and_hashes_are_the_same_however_a_column_is_cut(seed: int, cuts: list[int]) -> None:
    dice = np.random.default_rng(seed)
    numbers = dice.normal(0, 10.0 ** dice.integers(-3, 6), 20_000)
    whole = summary(list(numbers))

    parts = [summary(list(part)) for part in np.split(dice.permutation(numbers), sorted(cuts))]
    steps = Summary()
    for part in parts:
        steps = Summary.combined([part, steps])

    for both in (Summary.combined(parts), steps):
        assert both.shift == whole.shift
        assert dict(zip(both.bins, both.weights, strict=True)) == dict(
            zip(whole.bins, whole.weights, strict=True)
        )
        assert sorted(both.hashes) == sorted(whole.hashes)
        assert both.quantile(0.37) == whole.quantile(0.37)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(["normal", "cents", "wide", "few", "zero"]))
def test_figures_of_runs_are_those_of_each_run_by_itself(seed: int, kind: str) -> None:
    dice, size = np.random.default_rng(seed), 30_000
    numbers = {
        "normal": dice.normal(0, 10.0 ** dice.integers(-3, 6), size),
        "cents": np.round(dice.normal(20, 5, size), 2),
        "wide": 10.0 ** dice.uniform(-140, 140, size) * dice.choice([-1, 1], size),
        "few": dice.choice([0.0, -0.0, 1e9, -3.5], size),
        "zero": np.full(size, -0.0),
    }[kind]
    ends = np.sort(np.append([0, size], dice.integers(0, size, 3)))

    found = NumberRuns.of(numbers, numbers.view(np.int64), True, ends, 512)

    places, hashed = np.append(0, found.bins.ends), np.append(0, found.hash_ends)
    for run, own in enumerate(np.split(numbers, ends[1:-1])):
        bins = {}
        for shift in range(COARSE_SHIFT, 64):
            # By hand: the bits of doubles without sign, in order of their values.
            bits = (np.abs(own).view(np.int64) ^ np.where(own < 0, -1, 0)) >> shift
            bins = dict(zip(*(each.tolist() for each in np.unique(bits, return_counts=True)), strict=True))
            if len(bins) <= 512:
                break
        at, of = slice(*places[run : run + 2]), slice(*hashed[run : run + 2])
        assert dict(zip(found.bins.keys[at].tolist(), found.bins.weights[at].tolist(), strict=True)) == bins
        words = hashes_of((own + 0.0).view(np.int64), np.array([0, len(own)]))[0]
        assert sorted(found.hashes[of].tolist()) == sorted(words.tolist())
        if len(own):
            assert (found.bins.shifts[run], found.least[run], found.greatest[run]) == (
                shift,
                own.min(),
                own.max(),
            )
            assert found.mean[run] == pytest.approx(own.mean(), rel=1e-9, abs=np.abs(own).max() * 1e-12)
            assert found.squares[run] == pytest.approx(np.square(own - own.mean()).sum(), rel=1e-9, abs=1e-12)

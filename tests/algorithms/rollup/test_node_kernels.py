"""Batches large enough that levels grow, rows are sorted or scattered, and nodes are moved apart."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from lakehouse.algorithms.rollup.levels import Level
from tests.oracles.rollup.dsmga_tree import DsmgaTree
from tests.oracles.rollup.level_stack import LevelStack

Ints = npt.NDArray[np.int64]
WIDTHS = [7, 70, 1400]


def grouped(times: Ints, values: npt.NDArray[np.float64], width: int) -> dict[str, list[float]]:
    """What numpy makes of the rows by itself."""
    starts, place = np.unique(times - times % width, return_inverse=True)
    low, high = np.full(len(starts), np.inf), np.full(len(starts), -np.inf)
    np.minimum.at(low, place, values)
    np.maximum.at(high, place, values)
    sums = np.bincount(place, weights=values)
    return {
        "start": starts.tolist(),
        "n": np.bincount(place).tolist(),
        "total": sums.tolist(),
        "min": low.tolist(),
        "max": high.tolist(),
    }


def rows_of(kind: str, rng: np.random.Generator) -> Ints:
    times = np.arange(30_000) * 3
    return {
        "in order": times,
        "a tenth late": np.where(rng.random(30_000) < 0.1, times - rng.integers(0, 20_000, 30_000), times),
        "shuffled": rng.permutation(times),
        "far apart": rng.integers(-(10**12), 10**12, 30_000),
        "all at once": np.full(30_000, 5),
    }[kind]


@pytest.mark.parametrize("kind", ["in order", "a tenth late", "shuffled", "far apart", "all at once"])
@pytest.mark.parametrize("size", [64, 1000, 30_000])
def test_every_level_holds_what_a_group_by_would(kind: str, size: int) -> None:
    rng = np.random.default_rng(size)
    times, values = rows_of(kind, rng), rng.integers(-99, 99, 30_000).astype(np.float64)
    stack = LevelStack(WIDTHS)

    for start, end in pairwise([*range(0, len(times), size), len(times)]):
        stack.add_rows(times[start:end], values[start:end])

    stack.check()
    for level in stack.arrays:
        expected = grouped(times, values, level.width_us)
        assert {name: level.live[name].tolist() for name in expected} == expected


@pytest.mark.parametrize("kind", ["in order", "a tenth late", "shuffled"])
def test_small_batches_leave_the_same_tree_as_one_large_one(kind: str) -> None:
    rng = np.random.default_rng(1)
    times, values = rows_of(kind, rng), rng.integers(-99, 99, 30_000).astype(np.float64)
    levels = [Level(7, 700), Level(70, 14_000), Level(1400, None)]
    small, large = DsmgaTree(levels), DsmgaTree(levels)

    large.insert_batch(times, values)
    for start in range(0, len(times), 100):
        small.insert_batch(times[start : start + 100], values[start : start + 100])

    small.check()
    assert small.snapshot() == large.snapshot()

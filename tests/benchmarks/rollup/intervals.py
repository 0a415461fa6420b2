"""Random ranges against the exact truth: how many leave their interval. There must be none.

Truths come from whole numbers: sums are prefix sums of int64 (doubles are scaled to whole numbers of any size first),
extremes from tables over powers of two. Half of the ranges go to declared levels, half to the paper's tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.rollup.levels import Level
from tests.benchmarks import page
from tests.oracles.rollup.contract import AGGREGATES
from tests.oracles.rollup.dsmga_tree import DsmgaTree
from tests.oracles.rollup.paper_tree import PaperTree

ROWS, SPAN = 100_000, 1_000_000
RANGES = 100_000
SCALE = 2**52


def _zipf(rng: np.random.Generator) -> Any:
    return np.minimum(rng.zipf(1.3, ROWS), 10**9).astype(np.float64)


def _spike(rng: np.random.Generator) -> Any:
    return np.where(rng.random(ROWS) < 0.0005, 1e9, 1.0)


def _constant(rng: np.random.Generator) -> Any:
    return np.full(ROWS, 3.0)


def _alternating(rng: np.random.Generator) -> Any:
    return np.where(np.arange(ROWS) % 2, -1.0, 1.0) * rng.integers(1, 1000, ROWS)


def _cancelling(rng: np.random.Generator) -> Any:
    return np.where(np.arange(ROWS) % 2, -1.0, 1.0) * 2.0**51 + rng.integers(-3, 4, ROWS)


def _doubles(rng: np.random.Generator) -> Any:
    return rng.uniform(1.0, 2.0, ROWS)


def _empty(rng: np.random.Generator) -> Any:
    return np.full(ROWS, np.nan)


DISTRIBUTIONS = {
    "zipf": _zipf,
    "spike": _spike,
    "constant": _constant,
    "alternating sign": _alternating,
    "cancelling sums": _cancelling,
    "doubles": _doubles,
    "empty": _empty,
}


def figures(quick: bool) -> dict[str, Any]:
    """Return ranges tried and violations; each range is asked for every aggregate and counts once."""
    rows: list[tuple[str, list[int]]] = []
    for name, draw in DISTRIBUTIONS.items():
        rng = np.random.default_rng(3)
        times = np.sort(
            SPAN // 2 - (SPAN // 2 * rng.random(ROWS) ** 2).astype(np.int64) + rng.integers(0, 9, ROWS)
        )
        rows.append((name, violations(rng, times, draw(rng))))
    if not quick:
        heads = ["values", "ranges", *[kind.upper() for kind in AGGREGATES]]
        page.write(
            "rollup",
            "intervals",
            "Truths outside their interval",
            __doc__ or "",
            page.table(heads, [[name, RANGES, *wrong] for name, wrong in rows]),
        )
    return {
        "interval_trials": RANGES * len(rows),
        "interval_violations": sum(sum(wrong) for _, wrong in rows),
    }


def violations(rng: np.random.Generator, times: Any, values: Any) -> list[int]:
    """Return, for each aggregate, how many ranges have a truth outside their interval."""
    half = RANGES // 2
    ends = np.sort(rng.integers(-1000, SPAN // 2 + 1000, (2, RANGES)), axis=0)
    # Half of them short, where cut nodes are most of the answer.
    ends[1, ::2] = ends[0, ::2] + rng.integers(0, 300, half)
    trees: list[DsmgaTree | PaperTree] = [
        DsmgaTree([Level(1, 640), Level(10, 5000), Level(100, 50_000), Level(1000, None)]),
        PaperTree(1, alpha=2, exponent=2),
    ]
    found = np.zeros(len(AGGREGATES), np.int64)
    for tree, part in zip(trees, (slice(0, half), slice(half, None)), strict=True):
        tree.insert_batch(times, values)
        truths = truth(times, values, ends[0, part], ends[1, part])
        for number, kind in enumerate(AGGREGATES):
            answers = tree.query_batch(ends[0, part], ends[1, part], kind)
            low = np.where(np.isnan(answers.low), -np.inf, answers.low)
            high = np.where(np.isnan(answers.high), np.inf, answers.high)
            wrong = ~((low <= truths[kind]) & (truths[kind] <= high)) & ~np.isnan(truths[kind])
            found[number] += int(wrong.sum())
    return [int(count) for count in found]


def truth(times: Any, values: Any, starts: Any, ends: Any) -> dict[str, npt.NDArray[np.float64]]:
    """Return the double nearest to each true answer; NaN where there is none."""
    kept = np.isfinite(values)
    times, values = times[kept], values[kept]
    first, after = np.searchsorted(times, starts), np.searchsorted(times, ends)
    n = after - first
    whole = (
        [int(value * SCALE) for value in values] if len(values) and values[0] % 1 else values.astype(np.int64)
    )
    running = np.concatenate([np.zeros(1, object), np.cumsum(np.array(whole, dtype=object))])
    scale = SCALE if isinstance(whole, list) else 1
    sums = running[after] - running[first]
    return {
        # Python divides whole numbers to the nearest double.
        "sum": np.array([total / scale for total in sums], np.float64),
        "count": n.astype(np.float64),
        "avg": np.array([t / (scale * k) if k else np.nan for t, k in zip(sums, n.tolist(), strict=True)]),
        "min": -extreme(-values, first, n),
        "max": extreme(values, first, n),
    }


def extreme(values: Any, first: Any, n: Any) -> npt.NDArray[np.float64]:
    """Return the greatest of ``n`` values from ``first`` on, NaN of none."""
    best = np.full(len(first), np.nan)
    table, width = values, 1
    while width <= max(1, int(n.max(initial=0))) and len(table):
        fits = (n >= width) & (n < 2 * width)
        best[fits] = np.maximum(table[first[fits]], table[(first + n - width)[fits]])
        table = np.maximum(table[:-width], table[width:])
        width *= 2
    return best

"""The paper's AAQuery beside ours: a cut node spread whole, or what its kept children leave of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.benchmarks import page
from tests.benchmarks.rollup.streams import HISTORIES, MINUTE, History, load
from tests.oracles.rollup.contract import Aggregate
from tests.oracles.rollup.descent import Descent
from tests.oracles.rollup.level_stack import LevelStack
from tests.oracles.rollup.paper_tree import PaperTree

EXPONENT = 3
SUM: Aggregate = "sum"
WAYS = ("paper", "first and last times", "remainder", "both")


def figures(quick: bool) -> dict[str, Any]:
    """Return the mean over all histories of the mean relative error of SUM, under the paper's way and ours."""
    found = {}
    for name in HISTORIES:
        history = load(name)
        if history is not None:
            found[name] = errors(history, 50 if quick else 5000)
    if not quick:
        _write(found)
    mean = {way: float(np.mean([each[way].mean() for each in found.values()])) for way in WAYS}
    return {"aaquery_error_paper": round(mean["paper"], 5), "aaquery_error_ours": round(mean["both"], 5)}


def errors(history: History, count: int) -> dict[str, npt.NDArray[np.float64]]:
    """Return the relative errors of ranges of every age and length under each way."""
    starts, ends, truth = _asked(history, count)
    tree = PaperTree(MINUTE, alpha=2, exponent=EXPONENT)
    tree.insert_batch(history.times, history.values)
    whole = PaperTree(MINUTE, alpha=2, exponent=EXPONENT, spread="whole")
    whole.restore(tree.snapshot())
    stack = LevelStack.unpacked(tree_widths(tree), tree.snapshot().parts)
    stack.move_horizons(tree.horizons)
    ranges = list(zip(starts.tolist(), ends.tolist(), strict=True))
    values = {
        "paper": [spread_evenly(stack.read(*each, "whole")) for each in ranges],
        "first and last times": whole.query_batch(starts, ends, SUM).value,
        "remainder": [spread_evenly(stack.read(*each, "remainder")) for each in ranges],
        "both": tree.query_batch(starts, ends, SUM).value,
    }
    return {way: np.abs(np.asarray(value) - truth) / truth for way, value in values.items()}


def tree_widths(tree: PaperTree) -> list[int]:
    """Return the widths of the tree's levels, finest first."""
    return [tree.base_us * tree.alpha**index for index in range(len(tree.horizons))]


def spread_evenly(read: Descent) -> float:
    """Return the estimate as the paper prints it: whole nodes, and the share of a cut one's time."""
    sure = sum(fold.total + fold.carry for fold in read.folds)
    return sure + sum(cut.sum * (cut.to_us - cut.from_us) / cut.width_us for cut in read.cuts)


def _asked(history: History, count: int) -> tuple[Any, Any, Any]:
    """Return starts, ends and true sums of ranges with any rows, of ages and lengths of every size."""
    rng = np.random.default_rng(9)
    times, span = history.times, int(history.times[-1] - history.times[0])
    sizes = np.exp(rng.uniform(np.log(10 * MINUTE), np.log(span), (2, count))).astype(np.int64)
    ends = times[-1] + 1 - sizes[0]
    starts = ends - sizes[1]
    running = np.concatenate([[0], np.cumsum(history.values.astype(np.longdouble))])
    truth = (running[np.searchsorted(times, ends)] - running[np.searchsorted(times, starts)]).astype(float)
    asked = (truth > 0) & (starts >= times[0])
    return starts[asked], ends[asked], truth[asked]


def _write(found: dict[str, dict[str, npt.NDArray[np.float64]]]) -> None:
    rows = [
        [name, title, *[float(of(each[way])) for way in WAYS]]
        for name, each in found.items()
        for title, of in (("mean", np.mean), ("p95", lambda error: np.quantile(error, 0.95)))
    ]
    page.write(
        "rollup",
        "aaquery",
        "The paper's AAQuery and ours",
        f"Relative error of SUM, ranges of every age and length, `PaperTree(alpha=2, exponent={EXPONENT})`, a base of "
        "a minute. The paper spreads a cut node over its whole time. With first and last times a node whose rows are "
        "all in or all out is known to be, and the value stays in the interval. With the remainder, what the kept "
        "children hold is taken off before.",
        page.table(["history", "error", *WAYS], rows),
    )

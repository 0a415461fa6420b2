"""Nodes kept against the bound as history grows, up to a hundred years of seconds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.benchmarks import page
from tests.oracles.rollup.paper_tree import PaperTree

CENTURY = 100 * 365 * 24 * 3600
ALPHA, EXPONENT = 2, 2
PIECE = 1_000_000


def figures(quick: bool) -> dict[str, Any]:
    """Insert a row for each second of ever longer histories; a quick run inserts only what a century keeps."""
    sizes = [10**power for power in range(2, 8)]
    rows = [[n, kept(every_second(n)), bound(n)] for n in sizes]
    century = slots_kept(CENTURY) if quick else every_second(CENTURY)
    century.check()
    rows.append([CENTURY, kept(century), bound(CENTURY)])
    if not quick:
        _write(rows)
    return {"base_slots": CENTURY, "nodes": kept(century), "nodes_bound": bound(CENTURY)}


def bound(n: int) -> int:
    """Return how many nodes n base slots need at most: levels times slots of a level."""
    levels = max(1, math.ceil(math.log(n - 1, ALPHA)) - EXPONENT + 1)
    slots: int = ALPHA**EXPONENT + 1
    return levels * slots


def kept(tree: PaperTree) -> int:
    """Return the number of nodes of all levels."""
    return sum(len(tree.nodes(index)) for index in range(len(tree.horizons)))


def every_second(n: int) -> PaperTree:
    """Return the tree after a row in each of n slots."""
    tree = PaperTree(1, ALPHA, EXPONENT)
    ones = np.ones(min(n, PIECE))
    for start in range(0, n, PIECE):
        times = np.arange(start, min(start + PIECE, n))
        tree.insert_batch(times, ones[: len(times)])
    return tree


def slots_kept(n: int) -> PaperTree:
    """Return a tree of the same nodes from the rows alone that are in the slots it keeps."""
    back = np.arange(ALPHA**EXPONENT + 1)[:, None] * ALPHA ** np.arange(math.ceil(math.log2(n)) + 1)
    times = np.unique(np.clip(n - 1 - back, 0, n - 1))
    tree = PaperTree(1, ALPHA, EXPONENT)
    tree.insert_batch(times, np.ones(len(times)))
    return tree


def _write(rows: list[list[int]]) -> None:
    figure, axes = page.picture("space")
    axes.semilogx([row[0] for row in rows], [row[1] for row in rows], "o-", label="nodes kept")
    axes.semilogx([row[0] for row in rows], [row[2] for row in rows], "--", label="bound")
    axes.set(xlabel="base slots of history", ylabel="nodes", ylim=(0, None))
    axes.legend()
    page.write(
        "rollup",
        "space",
        "Nodes kept as history grows",
        f"`PaperTree(alpha={ALPHA}, exponent={EXPONENT})`, a row in each base slot. "
        f"{CENTURY:,} slots are a hundred years of seconds.",
        page.table(["base slots", "nodes kept", "bound"], rows),
        page.save(figure, "rollup", "space"),
    )

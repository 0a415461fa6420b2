"""Width of sure intervals of SUM by age and length of the range, and what more columns per node would buy.

Of each range, the width divided by the truth; shown is the median. Levels and ranges are those of the page on error.
What the intervals are made from, each but the last one sure:

    times      count, sum, extremes; of the first and last times only whether they are inside (as it was)
    kept       and that a range between them leaves out both: what the macros answer
    squares    also the sum of squares: k of n values differ from k means by at most deviation * sqrt(k (n - k));
               8 bytes a node
    gap        also the longest time without a row, which tells how many rows must lie on each side; 8 bytes
    half       also how many rows the first half of the node holds; 8 bytes
    eighths    also how many each eighth of the node holds; 56 bytes, which compress well
    95 %       NOT GUARANTEED: each row is thought to lie anywhere in the node, as SummaryStore (Agrawal and Vulimiri,
               SOSP 2017) thinks of arrivals; sum * share -/+ 1.96 sqrt(share (1 - share) squares)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tests.benchmarks import page
from tests.benchmarks.rollup.error import EDGES, LONGEST, declared_tree
from tests.benchmarks.rollup.streams import HISTORIES, History, load
from tests.oracles.rollup.bounds import CutNode, CutNodes, row_range
from tests.oracles.rollup.dsmga_tree import DsmgaTree

WAYS = ("times", "kept", "squares", "gap", "half", "eighths", "95 %")
AGES, LENGTHS = ("1h", "1d", "1w"), ("10m", "1h", "6h", "1d", "1w")
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Part(NamedTuple):
    """A cut node, what more columns would say of it, and its share of time inside."""

    node: CutNode
    squares: float
    times: Int64s
    share: float

    @property
    def gap(self) -> int:
        """The longest time without a row between the first and the last."""
        return int(np.diff(self.times).max(initial=0))


def figures(quick: bool) -> dict[str, Any]:
    """Return by history the median width of each way over all its cells, and how many sure intervals were wrong."""
    found, rows, wrong = {}, [], 0
    for name in HISTORIES:
        history = load(name)
        if history is None:
            continue
        tree, cells = declared_tree(history), []
        for age in AGES:
            for length in LENGTHS:
                cell = _cell(tree, history, age, length, 10 if quick else 300)
                if cell is None:
                    continue
                medians, outside, covered = cell
                wrong += outside
                cells.append(medians)
                rows.append([name, age, length, *(f"{one:.3g}" for one in medians), f"{covered:.0%}"])
        found[name] = {way: float(np.median([c[n] for c in cells])) for n, way in enumerate(WAYS)}
    if not quick:
        heads = ["history", "age from", "length from", *WAYS, "truths in 95 %"]
        text = (__doc__ or "").split("\n\n", 1)[1]
        summary = [[name, *(f"{one:.3g}" for one in ways.values())] for name, ways in found.items()]
        parts = [f"```\n{text}```", page.table(["history", *WAYS], summary), page.table(heads, rows)]
        page.write("rollup", "widths", "Width of sure intervals", *parts)
    return {"interval_widths": found, "sure_intervals_wrong": wrong}


def _cell(
    tree: DsmgaTree, history: History, age: str, length: str, count: int
) -> tuple[list[float], int, float] | None:
    """Return the median width of each way, how many sure intervals miss the truth, the share that 95 % holds."""
    starts, ends = ranges_of(history, age, length, count)
    if len(starts) < count // 10:
        return None
    running = np.concatenate([[0.0], np.cumsum(history.values.astype(np.longdouble))])
    widths, outside, covered = [], 0, 0
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        first, after = np.searchsorted(history.times, [start, end])
        truth = float(running[after] - running[first])
        sides = _sides(tree, history, start, end)
        rounding = 1e-9 * max(abs(truth), 1.0)
        outside += sum(not low - rounding <= truth <= high + rounding for low, high in sides[:-1])
        covered += sides[-1][0] - rounding <= truth <= sides[-1][1] + rounding
        if truth:
            widths.append([(high - low) / abs(truth) for low, high in sides])
    medians = np.median(np.array(widths), axis=0).tolist() if widths else [0.0] * len(WAYS)
    return medians, outside, covered / len(starts)


def ranges_of(history: History, age: str, length: str, count: int) -> tuple[Any, Any]:
    """Return starts and ends of random ranges of about this age and length that lie inside a history."""
    rng = np.random.default_rng(8)
    names, edges = list(EDGES), [*EDGES.values(), LONGEST]
    sizes = [
        np.exp(rng.uniform(np.log(edges[at]), np.log(edges[at + 1]), count)).astype(np.int64)
        for at in (names.index(age), names.index(length))
    ]
    ends = history.times[-1] + 1 - sizes[0]
    inside = ends - sizes[1] >= history.times[0]
    return (ends - sizes[1])[inside], ends[inside]


def _sides(tree: DsmgaTree, history: History, start: int, end: int) -> list[tuple[float, float]]:
    """Return the sides of each way."""
    descent = tree.descent(start, end)
    certain, parts = descent.inside().sum, [_part(history, node) for node in descent.cuts]
    cut = CutNodes.of(descent.cuts)
    now = row_range(cut)
    before = now[0], np.where((now[0] == 0) & (now[1] > 0), cut.n, now[1])
    counted = [_by_counts(parts, now, 2), _by_counts(parts, now, 8)]
    ways = [(before, False), (now, False), (now, True), (_by_gap(parts, now), False)]
    ways += [(rows, False) for rows in counted]
    found = []
    for (least, most), uses_squares in ways:
        pairs = [_sum_of(p, int(a), int(b), uses_squares) for p, a, b in zip(parts, least, most, strict=True)]
        found.append((certain + sum(low for low, _ in pairs), certain + sum(high for _, high in pairs)))
    value = certain + sum(part.node.sum * part.share for part in parts)
    spread = 1.96 * np.sqrt(sum(part.share * (1 - part.share) * part.squares for part in parts))
    return [*found, (value - spread, value + spread)]


def _part(history: History, node: CutNode) -> Part:
    """Return what the rows behind a cut node say that it does not hold."""
    first, last = np.searchsorted(history.times, [node.first_us, node.last_us + 1])
    times, values = history.times[first:last], history.values[first:last]
    share = (node.to_us - node.from_us) / node.width_us
    return Part(node, float(np.sum(values * values)), times, share)


def _by_gap(parts: Sequence[Part], rows: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the least and the most rows inside: between two rows no longer than the gap goes by without one."""
    least, most = rows[0].copy(), rows[1].copy()
    for at, part in enumerate(parts):
        node = part.node
        if not part.gap or least[at] == most[at]:
            continue
        inside = (min(node.to_us, node.last_us) - max(node.from_us, node.first_us)) // part.gap
        before = max(0, node.from_us - node.first_us) // part.gap
        after = max(0, node.last_us - node.to_us) // part.gap
        least[at] = max(least[at], inside)
        most[at] = min(most[at], node.n - before - after)
    return least, most


def _by_counts(parts: Sequence[Part], rows: tuple[Any, Any], pieces: int) -> tuple[Any, Any]:
    """Return the least and the most rows inside, where each piece of a node's time is counted on its own."""
    least, most = rows[0].copy(), rows[1].copy()
    for at, part in enumerate(parts):
        node = part.node
        start = node.first_us - node.first_us % node.width_us
        edges = start + np.arange(pieces + 1) * node.width_us // pieces
        held = np.diff(np.searchsorted(part.times, edges))
        is_whole = (edges[:-1] >= node.from_us) & (edges[1:] <= node.to_us)
        is_met = (edges[:-1] < node.to_us) & (edges[1:] > node.from_us)
        least[at] = max(least[at], held[is_whole].sum())
        most[at] = min(most[at], held[is_met].sum())
    return least, most


def _sum_of(part: Part, least: int, most: int, uses_squares: bool) -> tuple[float, float]:
    node = part.node
    if least == node.n:
        return node.sum, node.sum
    if most == 0:
        return 0.0, 0.0
    k = np.unique(np.round(np.linspace(least, most, 4001)))
    k = np.unique(np.clip(np.concatenate([k, *_bends(node)]), least, most))
    high = np.minimum(k * node.max, node.sum - (node.n - k) * node.min)
    low = np.maximum(k * node.min, node.sum - (node.n - k) * node.max)
    if uses_squares:
        mean = node.sum / node.n
        deviation = np.sqrt(max(part.squares / node.n - mean * mean, 0.0))
        apart = deviation * np.sqrt(k * (node.n - k))
        high, low = np.minimum(high, k * mean + apart), np.maximum(low, k * mean - apart)
    return float(low.min()), float(high.max())


def _bends(node: CutNode) -> list[Floats]:
    if node.max == node.min:
        return []
    bends = np.array([node.sum - node.n * node.min, node.n * node.max - node.sum]) / (node.max - node.min)
    return [np.floor(bends), np.ceil(bends)]

"""Bytes of all levels against raw, and the error of unaligned ranges by age and length.

One declaration for all histories: a minute's nodes for 128 minutes, then four times wider for four times longer,
the last one forever. Age is from the newest row back to the end of the range, seen from one moment, the end of the
history. An error is relative to the truth; where the truth is zero and the answer is not, it is infinite.
"""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.simulator.arrays import doubles, integers
from tests.benchmarks import page
from tests.benchmarks.rollup.streams import DAY, HISTORIES, HOUR, MINUTE, History, load
from tests.oracles.rollup.contract import Aggregate
from tests.oracles.rollup.dsmga_tree import DsmgaTree

NODES_A_LEVEL, FACTOR = 128, 4
EDGES = {"10m": 10 * MINUTE, "1h": HOUR, "6h": 6 * HOUR, "1d": DAY, "1w": 7 * DAY, "30d": 30 * DAY}
LONGEST = 720 * DAY
ASKED: tuple[Aggregate, Aggregate] = ("sum", "count")


class Cell(NamedTuple):
    """One cell of the grid: p95 relative error of SUM and COUNT; ``is_wide``: all longer than a tenth of their age."""

    age: str
    length: str
    asked: int
    p95: dict[Aggregate, float]
    is_wide: bool


def figures(quick: bool) -> dict[str, Any]:
    """Return the least ratio of bytes and the largest p95 error over the histories, and both for each."""
    found, cells, skipped = {}, {}, []
    for name in HISTORIES:
        history = load(name)
        if history is None:
            skipped.append(name)
            continue
        tree = declared_tree(history)
        cells[name] = grid(tree, history, 100 if quick else 3000)
        found[name] = bytes_of(tree, history) | wide_error(tree, history, 1_000 if quick else 50_000)
    if not quick:
        _write(found, cells, skipped)
    return {
        "bytes_ratio": min(each["ratio"] for each in found.values()),
        "p95_relative_error": max(max(each["p95_sum"], each["p95_count"]) for each in found.values()),
        "bytes_and_error": found,
        "histories_absent": skipped,
    }


def declared_tree(history: History) -> DsmgaTree:
    """Return the history in levels four times wider each, the last one reaching back to its beginning."""
    span = int(history.times[-1] - history.times[0])
    levels, width = [], MINUTE
    while width * NODES_A_LEVEL < span:
        levels.append(Level(width, width * NODES_A_LEVEL))
        width *= FACTOR
    tree = DsmgaTree([*levels, Level(width, None)])
    tree.insert_batch(history.times, history.values)
    return tree


def bytes_of(tree: DsmgaTree, history: History) -> dict[str, Any]:
    """Return rows, nodes and bytes: as plain arrays (16 a row, 64 a node) and as Parquet with zstd."""
    plain_raw, packed_raw = _sizes({"time_us": history.times, "value": history.values})
    packed = [np.frombuffer(part, _node_type()) for part in tree.snapshot().parts]
    nodes = np.concatenate(packed)
    plain, parquet = _sizes({name: nodes[name] for name in nodes.dtype.names or ()})
    return {
        "rows": len(history.times),
        "nodes": len(nodes),
        "ratio": round(plain_raw / plain, 1),
        "parquet_ratio": round(packed_raw / parquet, 1),
    }


def wide_error(tree: DsmgaTree, history: History, count: int) -> dict[str, float]:
    """Return the p95 error over ranges longer than a tenth of their age, of ages and lengths of every size."""
    rng = np.random.default_rng(7)
    longest = int(history.times[-1] - history.times[0])
    ages = _any_size(rng, EDGES["10m"], longest, count)
    lengths = _any_size(rng, MINUTE, longest, count)
    starts, ends = _ranges(history, ages, lengths, lengths > ages / 10)
    errors = {kind: relative_errors(tree, history, starts, ends, kind) for kind in ASKED}
    return {f"p95_{kind}": round(_p95(errors[kind]), 4) for kind in ASKED}


def grid(tree: DsmgaTree, history: History, count: int) -> list[Cell]:
    """Return every cell that the history is long enough for."""
    rng = np.random.default_rng(8)
    names, edges = list(EDGES), [*EDGES.values(), LONGEST]
    cells = []
    for row, age in enumerate(names):
        for column, length in enumerate(names):
            ages = _any_size(rng, edges[row], edges[row + 1], count)
            lengths = _any_size(rng, edges[column], edges[column + 1], count)
            starts, ends = _ranges(history, ages, lengths, np.ones(count, np.bool_))
            if len(starts) >= count // 10:
                p95 = {kind: _p95(relative_errors(tree, history, starts, ends, kind)) for kind in ASKED}
                cells.append(Cell(age, length, len(starts), p95, edges[column] * 10 >= edges[row + 1]))
    return cells


def relative_errors(
    tree: DsmgaTree, history: History, starts: Any, ends: Any, kind: Aggregate
) -> npt.NDArray[np.float64]:
    """Return ``abs(value - truth) / abs(truth)`` of every range."""
    first, after = np.searchsorted(history.times, starts), np.searchsorted(history.times, ends)
    running = np.concatenate([[0], np.cumsum(history.values.astype(np.longdouble))])
    truth = (running[after] - running[first] if kind == "sum" else after - first).astype(np.float64)
    apart = np.abs(tree.query_batch(starts, ends, kind).value - truth)
    relative: npt.NDArray[np.float64] = np.full(len(apart), np.inf)
    np.divide(apart, np.abs(truth), out=relative, where=truth != 0)
    relative[apart <= 1e-9 * np.abs(truth)] = 0.0
    return relative


def _p95(errors: npt.NDArray[np.float64]) -> float:
    # Between a number and infinity there is nothing to interpolate.
    return float(np.quantile(errors, 0.95, method="higher"))


def _any_size(rng: np.random.Generator, least: int, most: int, count: int) -> npt.NDArray[np.int64]:
    return np.exp(rng.uniform(np.log(least), np.log(most), count)).astype(np.int64)


def _ranges(history: History, ages: Any, lengths: Any, wanted: Any) -> tuple[Any, Any]:
    """Return the wanted ranges that lie inside the history."""
    ends = history.times[-1] + 1 - ages
    inside = wanted & (ends - lengths >= history.times[0])
    return (ends - lengths)[inside], ends[inside]


def _node_type() -> np.dtype[np.void]:
    from tests.oracles.rollup.nodes import NODE

    return NODE


def _sizes(columns: dict[str, Any]) -> tuple[int, int]:
    """Return the bytes of columns as plain arrays and as one Parquet file, zstd, dictionaries off."""
    arrays = [integers(c) if c.dtype == np.int64 else doubles(c) for c in columns.values()]
    file = io.BytesIO()
    pq.write_table(pa.table(arrays, names=list(columns)), file, compression="zstd", use_dictionary=False)
    return sum(column.nbytes for column in columns.values()), len(file.getvalue())


def _write(found: dict[str, Any], cells: dict[str, list[Cell]], skipped: list[str]) -> None:
    heads = ["history", "rows", "nodes", "bytes ratio", "Parquet ratio", "p95 SUM", "p95 COUNT"]
    parts = [" ".join((__doc__ or "").split("\n\n", 1)[1].split())]
    parts.append(
        "Bytes: 16 a row (time, value) and 64 a node (start, n, two doubles of the sum, min, max, first, last) as "
        "plain arrays, one series and one measure; and both as one Parquet file with zstd. p95 is over ranges of "
        "every size longer than a tenth of their age. Aim: 100 times fewer bytes at less than 5 %."
    )
    parts.append(page.table(heads, [[name, *each.values()] for name, each in found.items()]))
    parts.append(_missed(found, cells))
    for name, grid_cells in cells.items():
        parts += [f"## {name}", _picture(name, grid_cells)]
        rows = [[c.age, c.length, c.asked, c.p95["sum"], c.p95["count"], c.is_wide] for c in grid_cells]
        grid_heads = ["age from", "length from", "ranges", "p95 SUM", "p95 COUNT", "longer than age / 10"]
        parts.append(page.table(grid_heads, rows))
    parts += [f"Not measured, files absent: {', '.join(skipped)}."] if skipped else []
    page.write("rollup", "error", "Bytes and error by age and length", *parts)


def _missed(found: dict[str, Any], cells: dict[str, list[Cell]]) -> str:
    missed = [
        f"- {name}: age from {cell.age}, length from {cell.length}: {kind.upper()} {cell.p95[kind]:.1%}"
        for name, grid_cells in cells.items()
        for cell in grid_cells
        for kind in ASKED
        if cell.is_wide and cell.p95[kind] >= 0.05
    ]
    missed += [
        f"- {name}: Parquet ratio {each['parquet_ratio']}"
        for name, each in found.items()
        if each["parquet_ratio"] < 100
    ]
    return "What misses the aim:\n\n" + ("\n".join(missed) or "- nothing")


def _picture(name: str, cells: list[Cell]) -> str:
    names = list(EDGES)
    image = np.full((len(names), len(names)), np.nan)
    for cell in cells:
        image[names.index(cell.age), names.index(cell.length)] = min(cell.p95["sum"], 1.0)
    figure, axes = page.picture(name)
    shown = axes.imshow(image, origin="lower", vmin=0, vmax=0.2, cmap="viridis_r")
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="length from", ylabel="age from", title=f"{name}: p95 relative error of SUM")
    figure.colorbar(shown)
    return page.save(figure, "rollup", f"error-{name}")

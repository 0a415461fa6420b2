"""What the nodes of siblings and of the whole would add to a sure interval of SUM.

Of each range, the width divided by the truth; shown is the median, for levels and ranges as on the page on error.

    whole      all series together: by the whole's own nodes, which is what is answered; by the sum of its series'
               intervals; and by what both allow
    series     one series: by its own nodes, which is what is answered; by the whole less its siblings; by both

Office rooms are 23 series of a row a minute. The heavy-tailed link is dealt at random to 200 series, of which few have
a row in each of the finest nodes. What both allow is sure, as each of them is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks import page
from tests.benchmarks.rollup.error import declared_tree
from tests.benchmarks.rollup.streams import REAL, History, heavy_tailed
from tests.benchmarks.rollup.widths import AGES, LENGTHS, ranges_of
from tests.oracles.rollup.contract import Answers

SERIES = 200
Sides = tuple[Any, Any]


def figures(quick: bool) -> dict[str, Any]:
    """Return by set the median widths over its cells, and how many truths are outside of what both allow."""
    found, rows, wrong = dict[str, Any](), list[list[Any]](), 0
    for name, (whole, series) in _sets(quick).items():
        trees = [declared_tree(each) for each in (whole, *series)]
        cells = []
        for age in AGES:
            for length in LENGTHS:
                starts, ends = ranges_of(whole, age, length, 20 if quick else 100)
                if len(starts) < 10:
                    continue
                answers = [tree.query_batch(starts, ends, "sum") for tree in trees]
                truths = [_truth(each, starts, ends) for each in (whole, series[0])]
                widths, outside = _judged(answers, truths)
                wrong += outside
                cells.append(widths)
                rows.append([name, age, length, *(f"{one:.3g}" for one in widths)])
        found[name] = [float(np.median(column)) for column in np.array(cells).T]
    heads = ["set", "age from", "length from", *(f"{who}, {how}" for who in _WHO for how in _HOW[who])]
    if not quick:
        summary = [[name, *(f"{one:.3g}" for one in each)] for name, each in found.items()]
        shown = [page.table([heads[0], *heads[3:]], summary), page.table(heads, rows)]
        page.write("rollup", "siblings", "Sure intervals from siblings", f"```\n{__doc__}```", *shown)
    return {"sibling_widths": found, "sibling_intervals_wrong": wrong}


_WHO = ("whole", "series")
_HOW = {"whole": ("own", "sum of series", "both"), "series": ("own", "whole less siblings", "both")}


def _sets(quick: bool) -> dict[str, tuple[History, list[History]]]:
    link = heavy_tailed()
    link = History(link.times[-20_000:], link.values[-20_000:]) if quick else link
    found = {
        "heavy-tailed": (link, _dealt(link, np.random.default_rng(3).integers(0, SERIES, len(link.times))))
    }
    if (REAL / "office-rooms").is_dir() and not quick:
        paths = sorted((REAL / "office-rooms").glob("*.csv.gz"))
        frames = pd.concat([pd.read_csv(path).assign(room=number) for number, path in enumerate(paths)])
        frames = frames.sort_values("timestamp", kind="stable")
        times = pd.to_datetime(frames["timestamp"]).to_numpy().astype("datetime64[us]").astype(np.int64)
        rooms = History(times, frames["co2"].to_numpy(np.float64))
        found["office-rooms"] = rooms, _dealt(rooms, frames["room"].to_numpy())
    return found


def _dealt(history: History, series: Any) -> list[History]:
    parts = [np.flatnonzero(series == number) for number in np.unique(series)]
    return [History(history.times[part], history.values[part]) for part in parts]


def _truth(history: History, starts: Any, ends: Any) -> Any:
    running = np.concatenate([[0.0], np.cumsum(history.values)])
    first, after = (np.searchsorted(history.times, times) for times in (starts, ends))
    return running[after] - running[first]


def _summed(answers: Sequence[Answers]) -> Sides:
    return np.sum([each.low for each in answers], axis=0), np.sum([each.high for each in answers], axis=0)


def _judged(answers: Sequence[Answers], truths: Sequence[Any]) -> tuple[list[float], int]:
    """Return the median width of each way, and how many truths are outside what both allow."""
    whole, one, *others = answers
    by_sum, (low, high) = _summed(answers[1:]), _summed(others)
    less = whole.low - high, whole.high - low
    widths, outside = list[float](), 0
    for own, other, truth in (
        ((whole.low, whole.high), by_sum, truths[0]),
        ((one.low, one.high), less, truths[1]),
    ):
        both = np.maximum(own[0], other[0]), np.minimum(own[1], other[1])
        known = np.abs(truth) > 0
        rounding = 1e-6 * np.maximum(np.abs(truth), 1)
        outside += int(np.sum((truth < both[0] - rounding) | (truth > both[1] + rounding)))
        for way in (own, other, both):
            width = (way[1] - way[0])[known] / np.abs(truth[known])
            widths.append(float(np.median(width)) if known.any() else 0.0)
    return widths, outside

"""Gain in sure intervals of SUM from nodes of a finer grouping, and what the whole says of one series.

Of each range, the width divided by the truth; shown is the median, for levels and ranges as on the page on error.

    whole      all series together: by the whole's own nodes; by the sum of its series' intervals, for which all nodes
               of these are read; and as a published version answers, where only cut nodes give way to those of series
    series     one series: by its own nodes, which is what is answered; and by the whole less its siblings

"nodes" are those behind an answer, in the median; "ms" is the processor's time of an answer and, beside it, of its
first step, which reads the whole's nodes alone. Office rooms are 23 series of a row a minute. The heavy-tailed link is
dealt at random to 200 series, of which few have a row in each of the finest nodes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.serving.ask.macros import COLUMNS, answer, prepared
from lakehouse.serving.ask.question import Answer, Question
from lakehouse.serving.sandbox.sandbox import open_published
from tests.benchmarks import page
from tests.benchmarks.rollup.error import declared_tree
from tests.benchmarks.rollup.serving import published_in, write_levels
from tests.benchmarks.rollup.streams import REAL, History, heavy_tailed
from tests.benchmarks.rollup.widths import AGES, LENGTHS, ranges_of
from tests.oracles.rollup.contract import Answers

SERIES = 200
Sides = tuple[Any, Any]


def figures(quick: bool) -> dict[str, Any]:
    """Return by set the median widths over its cells, and how many truths are outside of an interval."""
    found, rows, wrong = dict[str, Any](), list[list[Any]](), 0
    for name, (whole, series) in _sets(quick).items():
        trees = [declared_tree(each) for each in (whole, *series)]
        cells = []
        with _published(trees[0].levels, series) as connection:
            for age in AGES:
                for length in LENGTHS:
                    starts, ends = ranges_of(whole, age, length, 20 if quick else 100)
                    if len(starts) < 10:
                        continue
                    answers = [tree.query_batch(starts, ends, "sum") for tree in trees]
                    truths = [_truth(each, starts, ends) for each in (whole, series[0])]
                    widths, outside = _judged(answers, _asked(connection, starts, ends), truths)
                    wrong += outside
                    cells.append(widths)
                    rows.append([name, age, length, *(f"{one:.3g}" for one in widths)])
        found[name] = [float(np.median(column)) for column in np.array(cells).T]
    if not quick:
        summary = [[name, *(f"{one:.3g}" for one in each)] for name, each in found.items()]
        shown = [page.table(["set", *_HEADS], summary), page.table(["set", "age", "length", *_HEADS], rows)]
        page.write("rollup", "siblings", "Sure intervals from siblings", f"```\n{__doc__}```", *shown)
    return {"sibling_widths": found, "sibling_intervals_wrong": wrong}


_HEADS = (
    *("whole, own", "whole, sum of series", "whole, answered", "nodes", "ms", "ms, own"),
    *("series, own", "series, whole less siblings"),
)


class Asked(NamedTuple):
    """What a published version answered: the sides, and of each answer nodes and milliseconds, the latter also own."""

    sides: Sides
    nodes: Any
    ms: Any
    own_ms: Any


@contextmanager
def _published(levels: Sequence[Level], series: Sequence[History]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Publish the series, as devices of one stream."""
    columns = {
        "event_us": np.concatenate([each.times for each in series]),
        "device": np.repeat(np.arange(len(series)), [len(each.times) for each in series]),
        "temp": np.concatenate([each.values for each in series]),
    }
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder, times = Path(name), columns["event_us"]
        pq.write_table(pa.table(columns), folder / "rows.parquet")
        select = f"SELECT * FROM read_parquet('{folder}/rows.parquet') WHERE event_us >= "
        between = int(times.min()), int(times.max())
        published_in(
            folder, write_levels(folder / "nodes", levels, between, lambda since: f"{select}{since}")
        )
        with open_published(folder / "home") as reader:
            yield reader.connection


def _asked(connection: duckdb.DuckDBPyConnection, starts: Any, ends: Any) -> Asked:
    found, taken = list[Answer](), list[list[float]]()
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        question = Question("readings", "temp", "sum", start, end)
        began = time.process_time()
        found += answer(connection, question)
        asked = time.process_time()
        connection.execute(prepared(connection, question, [start, end], COLUMNS, False, "")).fetchall()
        taken.append([1000 * (asked - began), 1000 * (time.process_time() - asked)])
    sides = np.array([one.low for one in found]), np.array([one.high for one in found])
    return Asked(sides, np.array([one.nodes_read for one in found]), *np.array(taken).T)


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


def _judged(answers: Sequence[Answers], asked: Asked, truths: Sequence[Any]) -> tuple[list[float], int]:
    """Return the medians of a cell, and how many truths are outside of an interval."""
    whole, one, *others = answers
    low, high = _summed(others)
    ways = (
        *(((whole.low, whole.high), truths[0]), (_summed(answers[1:]), truths[0]), (asked.sides, truths[0])),
        *(((one.low, one.high), truths[1]), ((whole.low - high, whole.high - low), truths[1])),
    )
    widths, outside = list[float](), 0
    for way, truth in ways:
        known = np.abs(truth) > 0
        rounding = 1e-6 * np.maximum(np.abs(truth), 1)
        outside += int(np.sum((truth < way[0] - rounding) | (truth > way[1] + rounding)))
        width = (way[1] - way[0])[known] / np.abs(truth[known])
        widths.append(float(np.median(width)) if known.any() else 0.0)
    cost = [float(np.median(each)) for each in (asked.nodes, asked.ms, asked.own_ms)]
    return [*widths[:3], *cost, *widths[3:]], outside

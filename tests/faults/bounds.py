"""Random ranges over a published version against all of its rows: no truth may lie outside its interval."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.storage.layout import Home
from tests.faults.report import Progress
from tests.serving.streams import RandomStream, random_rows

if TYPE_CHECKING:
    import duckdb

AGGREGATES = ("sum", "count", "avg", "min", "max")
# A question asks for so many ranges that touch each other.
RANGES, QUESTIONS, QUICK = 1_000, 1_000, 10
ROWS, SPAN_US, SEED = 20_000, 1_000_000, 24
LEVELS = (
    (Level(10, 20_000), Level(1_000, 200_000), Level(30_000, None)),
    (Level(100, 50_000), Level(10_000, None)),
    (Level(7_000, 300_000), Level(70_000, 900_000)),
)
Numbers = npt.NDArray[np.int64]


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Ask for random ranges of streams with different levels."""
    questions = QUICK if quick else QUESTIONS
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name:
        folder = Path(name)
        streams = [
            RandomStream(f"s{place}", levels, random_rows(place, ROWS, SPAN_US), ((), ("device", "zone")))
            for place, levels in enumerate(LEVELS)
        ]
        publish(Home(folder / "home"), [stream.write(folder / stream.name) for stream in streams])
        with open_published(folder / "home") as published:
            asked = _asked(published.connection, streams, questions)
            broken = [wrong for some in progress(asked, questions) for wrong in some]
    return {"tried": questions * RANGES, "broken": broken}


def _asked(
    connection: duckdb.DuckDBPyConnection, streams: list[RandomStream], questions: int
) -> Iterator[list[str]]:
    dice = np.random.default_rng(SEED)
    rows = [_values(stream) for stream in streams]
    for number in range(questions):
        place, aggregate = number % len(streams), AGGREGATES[number // len(streams) % len(AGGREGATES)]
        edges = _edges(dice)
        answers = connection.execute(
            f"SELECT low, high FROM bucket_{aggregate}('{streams[place].name}', 'hits', $edges) ORDER BY bucket",
            {"edges": edges.tolist()},
        ).fetchnumpy()
        truths = _truths(aggregate, *rows[place], edges)
        # A side that is not known is null, and there is nothing about no rows.
        low, high = (np.ma.filled(answers[side].astype(float), np.nan) for side in ("low", "high"))
        is_out = (truths < low) | (truths > high)
        yield [
            f"{aggregate} of {streams[place].name} in [{edges[n]}, {edges[n + 1]}) is {truths[n]}, "
            f"not in [{low[n]}, {high[n]}]"
            for n in np.flatnonzero(is_out)
        ]


def _edges(dice: np.random.Generator) -> Numbers:
    """Return edges of short ranges and long ones, some of them before the first row or after the last."""
    lengths = np.exp(dice.uniform(0, 9, RANGES)).astype(np.int64) + 1
    start = dice.integers(-SPAN_US // 10, SPAN_US)
    return np.concatenate([[start], start + np.cumsum(lengths)])


def _values(stream: RandomStream) -> tuple[Numbers, Numbers]:
    """Return times and values of the rows that have one, in order of time."""
    found = sorted((row.event_us, row.hits) for row in stream.rows if row.hits is not None)
    times, values = np.array(found, np.int64).T
    return times, values


def _truths(aggregate: str, times: Numbers, values: Numbers, edges: Numbers) -> npt.NDArray[np.float64]:
    """Return the aggregate of each range, not a number where it has no rows and a count is not asked for."""
    ends = np.searchsorted(times, edges)
    counts = np.diff(ends).astype(float)
    if aggregate == "count":
        return counts
    sums = np.diff(np.concatenate([[0], np.cumsum(values)])[ends]).astype(float)
    extreme = {"min": np.minimum, "max": np.maximum}.get(aggregate)
    with np.errstate(invalid="ignore"):
        found = sums if aggregate == "sum" else sums / counts
    if extreme is not None:
        # Of the last place reduceat would take all that follows.
        found = extreme.reduceat(np.append(values, values[-1]), ends)[:-1].astype(float)
    return np.where(counts > 0, found, np.nan)

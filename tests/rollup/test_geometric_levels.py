"""The geometry of the paper's tree, declared by its width, fan-out and exponent: in tables, versions and answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs import build_rollups, ingest, maintain, publish
from lakehouse.algorithms.rollup.levels import horizons
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALPHA, EXPONENT = 2, 2
# A century of seconds that ends with 2025.
CENTURY_S = 100 * 365 * 24 * 3600
FIRST_S = 1_767_225_600 - CENTURY_S
STREAM = """
[streams.seconds]
event_time = {{ column = "ts", unit = "s" }}
measures = ["value"]
columns = {{ value = "int" }}
event_time_bounds = ["1926-01-26", "2026-01-01"]
levels = {{ first = "1s", alpha = {alpha}, l = {exponent} }}
source = {{ path = "landing/*.csv", format = "csv", settle = 0 }}
"""
Make = Callable[[str], Settings]


def taken_in(lakehouse_of: Make, spark: SparkSession, times: np.ndarray) -> Settings:
    """Return a home with a row of each second, of the value 1 at the first and 2, 3, ... at the next, published."""
    settings = lakehouse_of(STREAM.format(alpha=ALPHA, exponent=EXPONENT))
    folder = settings.home.parent / "landing"
    folder.mkdir()
    rows = "".join(f"{time},{number}\n" for number, time in enumerate(times.tolist(), 1))
    (folder / "rows.csv").write_text("ts,value\n" + rows)
    ingest.run(settings, spark, "seconds")
    build_rollups.run(settings, spark, "seconds")
    maintain.run(settings, spark, "seconds")
    publish.run(settings, spark, unchecked=True)
    return settings


def nodes_by_level(settings: Settings) -> dict[int, int]:
    with open_published(settings.layout) as reader:
        counts = "SELECT level, count(*) FROM rollups WHERE measure = 'value' GROUP BY level ORDER BY level"
        return dict(reader.connection.execute(counts).fetchall())


def test_a_century_of_seconds_takes_few_nodes_in_a_published_version(
    lakehouse_of: Make, session: SparkSession
) -> None:
    """A row in each second of which some level keeps a node is what a row in each second of all leaves behind."""
    newest = FIRST_S + CENTURY_S - 1
    widths = ALPHA ** np.arange(33)
    back = np.arange(ALPHA**EXPONENT + ALPHA + 1)[:, None] * widths
    times = np.unique(np.clip(newest - back, FIRST_S, newest))

    settings = taken_in(lakehouse_of, session, times)

    kept = nodes_by_level(settings)
    assert len(kept) == len(settings.streams["seconds"].levels) == 31
    assert max(kept.values()) <= ALPHA**EXPONENT + ALPHA
    assert sum(kept.values()) <= 180


def test_answers_contain_the_truth_and_reach_no_farther_than_theorem_1_allows(
    lakehouse_of: Make, session: SparkSession
) -> None:
    seconds = np.arange(FIRST_S, FIRST_S + 20_000)
    settings = taken_in(lakehouse_of, session, seconds)
    now, levels = int(seconds[-1]) + 1, settings.streams["seconds"].levels
    starts = [
        start // 10**6
        for level, start in zip(levels, horizons(levels, 10**6 * (now - 1)), strict=True)
        for start in range(max(start, 10**6 * FIRST_S), 10**6 * now, level.width_us)
    ]

    for length in (2, 3, 7, 60, 599, 3600, 9_999, 19_999):
        [answer] = ask(settings.home, "seconds", "value", "sum", 10**6 * (now - length), 10**6 * now)
        truth = sum(range(20_000 - length + 1, 20_001))
        nearest = max(start for start in starts if start <= now - length)
        assert answer.low is not None and answer.high is not None
        assert answer.low <= truth <= answer.high
        assert now - nearest <= (1 + 1 / ALPHA ** (EXPONENT - 1)) * length


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ('{ first = "1s", alpha = 1, l = 2 }', "alpha as a whole number from 2 to 1000"),
        ('{ first = "1s", alpha = 2, l = 0 }', "l as a whole number from 1 to 10"),
        ("{ first = 1, alpha = 2, l = 2 }", "whole numbers with units"),
        ('{ first = "1s", alpha = 2 }', "the keys first, alpha and l"),
    ],
)
def test_a_geometry_that_is_none_is_refused_with_its_key(
    lakehouse_of: Make, declared: str, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected) as refused:
        lakehouse_of(
            STREAM.replace("{{", "{")
            .replace("}}", "}")
            .replace('{ first = "1s", alpha = {alpha}, l = {exponent} }', declared)
        )

    assert "streams.seconds.levels" in str(refused.value)

"""A check of a query counts its results in tasks: of 40,000 of them some counts come to the driver."""

from __future__ import annotations

from pathlib import Path

from lakehouse.engine.local import LocalEngine
from lakehouse.queries.runtime.checks import frames_of
from lakehouse.queries.runtime.recall.tables import open_tables
from lakehouse.storage.layout import Home
from tests.ingest.test_rows_in_driver import MOST_BYTES, Driver
from tests.queries.answered import TEXT, Aggregated, Alarm, Answer, declare, query_of
from tests.queries.joins import ANSWERS, SECOND, Joined, Logged, Pair

PAIRS = 40_000


def test_a_check_of_a_query_brings_counts_and_no_rows_to_the_driver(tmp_path: Path) -> None:
    pairs = [Pair(number % 20 * SECOND, batch=1 + number % 2) for number in range(PAIRS)]
    late = [Logged(number % 20 * SECOND, number % 20 * SECOND + 5, 2) for number in range(PAIRS)]
    home, driver = Joined(pairs, late, batches=2).write(Home(tmp_path)), Driver()

    with driver.counting():
        tables = open_tables(LocalEngine(), home, ANSWERS, -1, None)
        assert tables is not None
        frames_of(tables, {})

    assert sum(tables.found["count_all"].to_pylist()) == PAIRS
    assert 0 < driver.received < MOST_BYTES
    assert driver.read < MOST_BYTES


def test_a_check_of_answers_and_alarms_brings_counts_to_the_driver(tmp_path: Path) -> None:
    streams = declare(tmp_path / "declared").streams
    groups = [(f"room {number}",) for number in range(PAIRS)]
    answers = [Answer(5, group=group) for group in groups]
    alarms = [Alarm(f"a{number}", 5, group=group) for number, group in enumerate(groups)]
    told = Aggregated(query_of(TEXT, streams), streams, answers, alarms, batches=2)
    home, driver = told.write(Home(tmp_path)), Driver()

    with driver.counting():
        tables = open_tables(LocalEngine(), home, told.query, -1, None)
        assert tables is not None
        frames = {frame.table: frame.rows for frame in frames_of(tables, {})}

    assert frames["answers"] == [{"revision_gaps": 0, "too_early": 0, "between_ticks": 0}]
    assert frames["alarms"] == [{"change_gaps": 0, "misplaced": 0, "uncovered": 0}]
    assert 0 < driver.received < MOST_BYTES
    assert driver.read < MOST_BYTES

"""A grouping with 100,000 series, in the long tests a million: published by the real build, asked for some or all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import AskError, Question
from lakehouse.serving.ask.series import MOST_KEYS, buckets_by, series, series_by
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.snapshot import PublishedMeasure, StreamSnapshot
from lakehouse.serving.sandbox.sandbox import PublishedReader, open_published
from lakehouse.serving.segments.segments import attach
from lakehouse.serving.versions.versions import segments_of
from lakehouse.storage.layout import Home

pytestmark = pytest.mark.slow
MILLION = 1_000_000
HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000
# Key i has one row, of value i, in hour i % 24 of the first day; sites of 1000 sensors.
_NODES = """
    SELECT {level} AS level, 0 AS grouping, printf('site-%03d', i // 1000) AS site,
        printf('sensor-%03d', i % 1000) AS sensor, i % 24 * {hour} - i % 24 * {hour} % {width} AS start_us,
        1 AS rows, event_us AS first_us, event_us AS last_us, 1 AS size__n, i AS size__sum, i AS size__min,
        i AS size__max, event_us AS size__first_us, event_us AS size__last_us
    FROM (SELECT i, i % 24 * {hour} + 60000000 AS event_us FROM range({keys}) AS t(i))
"""


@pytest.fixture(scope="module", params=[MILLION // 10, pytest.param(MILLION, marks=pytest.mark.long)])
def keys(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture(scope="module")
def many(keys: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishedReader]:
    folder: Path = tmp_path_factory.mktemp("many")
    with duckdb.connect() as connection:
        for level, width in ((1, HOUR_US), (2, DAY_US)):
            query = _NODES.format(level=level, width=width, hour=HOUR_US, keys=keys)
            connection.execute(f"COPY ({query}) TO '{folder}/{level}.parquet'")
    facts = StreamSnapshot(
        name="wide",
        definition="made by hand",
        groupings=(("site", "sensor"),),
        measures=(PublishedMeasure("size", "int", 0),),
        levels=(Level(HOUR_US, 7 * DAY_US), Level(DAY_US, None)),
        horizons=(0, -(2**62)),
        newest_us=23 * HOUR_US + 60_000_000,
        confirmed_us=23 * HOUR_US + 60_000_000,
        earliest_us=0,
        batch=1,
        latest_us=DAY_US,
        raw_path="raw/wide",
        nodes=folder,
    )
    publish(Home(folder / "home"), [facts])
    with open_published(folder / "home") as reader:
        yield reader


def _question(where: dict[str, str | None], by: tuple[str, ...] = (), end_us: int = 12 * HOUR_US) -> Question:
    return Question("wide", "size", "sum", 0, end_us, where, by)


def test_one_key_of_many_is_found_without_reading_the_others(many: PublishedReader, keys: int) -> None:
    question = _question({"site": "site-023", "sensor": "sensor-456"}, end_us=DAY_US)
    answer(many.connection, question)
    began = time.thread_time()

    (found,) = answer(many.connection, question)

    # Looking at every series takes most of a second for each million.
    assert time.thread_time() - began < 0.2 * keys / MILLION
    assert (found.value, found.exact, found.nodes_read) == (23_456.0, True, 1)


def test_a_key_that_is_not_there_has_no_sum(many: PublishedReader) -> None:
    (found,) = answer(many.connection, _question({"site": "site-123", "sensor": "sensor-x"}))

    assert (found.value, found.rows) == (None, 0)


def test_the_keys_below_the_first_one_are_answered_one_by_one(many: PublishedReader) -> None:
    found = answer(many.connection, _question({"site": "site-007"}, ("sensor",)))

    truth = {f"sensor-{i % 1000:03d}": float(i) for i in range(7000, 8000) if i % 24 < 12}
    assert {part.key["sensor"]: part.value for part in found} == truth


def test_the_first_of_many_keys_can_be_asked_for(many: PublishedReader) -> None:
    found = answer(many.connection, replace(_question({"site": "site-007"}, ("sensor",), DAY_US), limit=3))

    assert [part.value for part in found] == [7000.0, 7001.0, 7002.0]


def test_over_the_keys_below_the_first_one_every_row_is_counted(many: PublishedReader) -> None:
    (found,) = answer(many.connection, _question({"site": "site-007"}))

    assert found.exact
    assert found.value == sum(i for i in range(7000, 8000) if i % 24 < 12)


def test_the_first_of_many_keys_are_answered_within_the_memory_of_a_reader(
    many: PublishedReader,
) -> None:
    found = answer(many.connection, replace(_question({}, ("site", "sensor"), DAY_US), limit=3))

    assert [part.value for part in found] == [0.0, 1.0, 2.0]
    assert all(part.exact for part in found)


def test_keys_in_another_order_than_the_groupings_are_the_first_in_theirs(many: PublishedReader) -> None:
    found = answer(many.connection, replace(_question({}, ("sensor", "site"), DAY_US), limit=3))

    assert [part.value for part in found] == [0.0, 1000.0, 2000.0]


@pytest.mark.parametrize("by", [("site", "sensor"), ("sensor", "site"), ("site",)])
def test_the_first_of_many_keys_can_be_drawn(many: PublishedReader, by: tuple[str, ...]) -> None:
    found = buckets_by(many.connection, replace(_question({}, by, DAY_US), limit=MOST_KEYS), 24)

    first = answer(many.connection, replace(_question({}, by, DAY_US), limit=MOST_KEYS))
    assert [one.key for one in found] == [one.key for one in first]
    assert [sum(bucket.value or 0 for bucket in one.buckets) for one in found] == [one.value for one in first]


def test_so_many_keys_are_too_many_to_draw(many: PublishedReader) -> None:
    with pytest.raises(AskError, match="a chart shows at most 12 keys"):
        buckets_by(many.connection, _question({}, ("site", "sensor"), DAY_US), 24)


def test_one_part_of_many_without_rows_is_no_answer(many: PublishedReader) -> None:
    question = Question("wide", "size", "sum", 40 * DAY_US, 41 * DAY_US, {}, ("site", "sensor"))

    assert answer(many.connection, replace(question, limit=3)) == []


def test_what_does_not_fit_in_memory_is_told_with_what_to_declare(
    many: PublishedReader, tmp_path: Path
) -> None:
    """The sum over all series was told to be one by too many keys."""
    copied = tmp_path / "copy.duckdb"
    copied.write_bytes(many.hold.path.read_bytes())
    tight: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": "40MB",
        "temp_directory": "",
        "threads": 1,
    }

    with (
        duckdb.connect(str(copied), read_only=True, config=tight) as small,
        pytest.raises(AskError, match=r"no grouping by \[\] alone.*declare the grouping \[\]"),
    ):
        attach(small, many.hold.path.parent, segments_of(many.hold.path))
        answer(small, _question({}))


def test_questions_about_many_keys_are_stopped_after_their_time(many: PublishedReader) -> None:
    told = r"stopped after [\d.]+ s: narrow the range, ask for fewer keys or points"
    asked = (many, "wide", "size", "sum")

    with pytest.raises(AskError, match=told):
        ask(*asked, 0, DAY_US, by=["site", "sensor"], timeout_s=0.02)
    with pytest.raises(AskError, match=told):
        series(*asked, 0, DAY_US, points=10_000, timeout_s=0.02)
    with pytest.raises(AskError, match=told):
        series_by(*asked, ["site"], 0, DAY_US, points=10_000, limit=12, timeout_s=0.02)

    (found,) = ask(*asked, 0, DAY_US, {"site": "site-007", "sensor": "sensor-007"})
    assert found.value == 7007.0

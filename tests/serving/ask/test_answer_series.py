from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate.publish import snapshot_of
from lakehouse.serving.ask.answer_series import answer_series
from lakehouse.serving.ask.question import AskError
from lakehouse.serving.publish.macros import LAST_FILE
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.query_snapshot import write_alone
from lakehouse.serving.versions.versions import NotPublished
from lakehouse.storage.layout import Home
from sql import statement
from tests.queries.answered import (
    EVERY,
    FLOORS,
    PLAIN,
    SECOND,
    TEXT,
    Aggregated,
    Answer,
    Logged,
    declare,
    query_of,
    us,
)

Group = tuple[Any, ...]
GROUPS: dict[str, list[Group]] = {
    TEXT: [("hall",), ("it's",), (None,)],
    FLOORS: [("hall", 1), ("hall", None), (None, None)],
    PLAIN: [()],
}


@cache
def streams() -> dict[str, Stream]:
    with tempfile.TemporaryDirectory() as folder:
        return declare(Path(folder)).streams


def random_answers(seed: int) -> tuple[Aggregated, int | None]:
    """Return answers with gaps, nulls, revisions and an unfinished batch; and how much of them is published."""
    dice = random.Random(seed)
    text = dice.choice(list(GROUPS))
    answers = []
    for tick in range(0, 40 * EVERY, EVERY):
        for group in GROUPS[text]:
            for revision in range(dice.choice([0, 0, 1, 1, 2, 3])):
                value = dice.choice([None, float(dice.randrange(-50, 50))])
                batch, holds = min(1 + revision, 3), dice.random() < 0.5
                answers.append(
                    Answer(tick, dice.randrange(1, 90), group, holds, revision, batch=batch, value=value)
                )
    late = (
        [Logged(dice.choice([7, 30, 100, 105, 110, 160]), 10**6, batch=dice.choice([1, 3]))]
        if dice.random() < 0.5
        else []
    )
    time = dice.choice([None, 197, 195, 260])
    told = Aggregated(
        query_of(text, streams()), streams(), answers, missed_rows=late, batches=2, time=time, newest=260
    )
    return told, dice.choice([None, 150 * SECOND])


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    start=st.integers(-30, 150),
    length=st.integers(1, 300),
    points=st.integers(1, 60),
)
@settings(max_examples=60, deadline=None)
def test_a_series_is_what_the_newest_answers_of_each_bucket_say(
    seed: int, start: int, length: int, points: int
) -> None:
    told, published_us = random_answers(seed)
    output = random.Random(seed).choice([each.name for each in told.query.measures if each.is_shown])
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        facts = snapshot_of(told.write(Home(Path(folder))), told.query, told.streams, published_us)
        for file in ("timestamps", "queries"):
            connection.execute(statement(f"serving/{file}"))
        write_alone(connection, [facts])
        connection.execute(statement(f"serving/{LAST_FILE}"))
        ends = f"make_timestamp({us(start)}), make_timestamp({us(start + length)})"
        columns = "map_values(key), epoch_us(starts_at), epoch_us(ends_at)"
        told_of = "value, low, high, ticks, answers, holding, final"
        series = f"answer_series('busy', '{output}', {ends}, {points})"
        found = connection.execute(f"SELECT {columns}, {told_of} FROM {series}").fetchall()

    expected = by_hand(told, output, start, start + length, points, published_us)
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def by_hand(
    told: Aggregated, output: str, start: int, end: int, points: int, published_us: int | None
) -> list[tuple[Any, ...]]:
    """Return the rows of a series, tick by tick."""
    ticks = [tick for tick in range(-10 * EVERY, 100 * EVERY, EVERY) if start <= tick < end]
    if not ticks or told.time is None:
        return []
    since = -(10**9) if published_us is None else told.newest - published_us // SECOND
    answered = [tick for tick in ticks if since <= tick <= told.time]
    newest = {key: each for key, each in told.newest_answers.items() if key[0] in answered}
    groups = {group for _, group in newest} if told.query.groups else {()}
    width = -(-len(ticks) // points)
    rows = []
    for first in range(0, len(ticks), width):
        own = [tick for tick in ticks[first : first + width] if tick in answered]
        edges = us(ticks[first]), us(ticks[first] + width * EVERY)
        is_final = ticks[first : first + width][-1] <= last_final(told, since)
        for group in groups:
            rows.append((texts(group), *edges, *bucket(newest, output, group, own), is_final))
    return rows


def texts(group: Group) -> list[str | None]:
    return [None if value is None else str(value) for value in group]


def bucket(
    newest: dict[tuple[int, Group], Answer], output: str, group: Group, ticks: list[int]
) -> tuple[Any, ...]:
    """Return value, low, high, ticks, answers and holding of a bucket."""
    found = [newest.get((tick, group)) for tick in ticks]
    nothing = 0.0 if output == "n" else None
    values = [nothing if each is None else (float(each.n) if output == "n" else each.value) for each in found]
    known = [value for value in values if value is not None]
    sides = (min(known, default=None), max(known, default=None))
    answers = [each for each in found if each]
    return (
        values[-1] if values else None,
        *sides,
        len(ticks),
        len(answers),
        sum(each.holds for each in answers),
    )


def last_final(told: Aggregated, since: int) -> float:
    """Return up to when ticks are final; rows of asks come up to 20 s late, and repairs there were none."""
    waiting = [each.event for each in told.missed_rows if each.batch <= told.batches and each.horizon > since]
    return min([(told.time or 0) - 20, *(event - 1 for event in waiting)])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A published query with fourteen groups, of which two are in the first minute; and one that tells no aggregate."""
    folder = tmp_path_factory.mktemp("series")
    home = Home(folder / "home")
    answers = [Answer(tick, tick, group=(name,)) for tick in (5, 10, 50) for name in ("hall", "attic")]
    answers += [Answer(90, group=(f"room {number:02}",)) for number in range(12)]
    told = Aggregated(query_of(TEXT, streams()), streams(), answers)
    joined = "FROM asks [1 SECOND] a, replies [1 SECOND] b WHERE a.place = b.place"
    bare = f"SELECT a.place {joined} GROUP BY a.place EVERY 1 MINUTE"
    silent = Aggregated(query_of(bare, streams(), "bare"), streams())
    plain = Aggregated(query_of(PLAIN, streams(), "plain"), streams())
    facts = [snapshot_of(each.write(home), each.query, streams(), None) for each in (told, silent, plain)]
    publish(home, [], queries=facts)
    return home


def test_by_default_it_is_the_first_output_at_all_ticks_up_to_the_last_answered(home: Home) -> None:
    (one,) = answer_series(home, "busy", where={"place": "hall"}, points=20)

    assert (one.question.output, one.key) == ("n", {"place": "hall"})
    assert (one.buckets[0].from_us, one.buckets[-1].to_us) == (us(5), us(105))
    assert [bucket.value for bucket in one.buckets[:3]] == [5, 10, 0]
    assert [bucket.value for bucket in one.buckets[-11:]] == [50, *[0] * 10]


def test_there_is_a_series_for_each_group_that_has_an_answer_in_the_range(home: Home) -> None:
    found = answer_series(home, "busy", "warmth", "2026-01-01", "2026-01-01T00:01", 3)

    assert [one.key for one in found] == [{"place": "attic"}, {"place": "hall"}]
    assert [len(one.buckets) for one in found] == [3, 3]
    assert [bucket.value for bucket in found[0].buckets] == [None, None, None]
    assert [bucket.high for bucket in found[0].buckets] == [1.5, None, 1.5]


def test_more_groups_than_a_chart_can_show_are_refused_unless_the_first_will_do(home: Home) -> None:
    with pytest.raises(AskError, match=r"at most 12 groups, and more have answers in this range by place"):
        answer_series(home, "busy")

    assert [one.key["place"] for one in answer_series(home, "busy", limit=3)] == ["attic", "hall", "room 00"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"query": "bussy"}, "no published aggregate 'bussy'; did you mean 'busy'"),
        ({"output": "m"}, "no output of busy 'm'.* There are: n, warmth"),
        ({"where": {"floor": "1"}}, "no group of busy 'floor'.* There are: place"),
        ({"points": 0}, "points must be from 1 to 10000, found 0"),
        ({"limit": 13}, "limit must be from 1 to that, found 13"),
        (
            {"start": "2026-01-05", "end": "2026-01-05"},
            "must begin before it ends: from 2026-01-05T00:00:00.00:00 to",
        ),
        ({"query": "bare"}, "bare tells groups alone"),
        ({"query": "plain"}, "plain has no answer yet"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_reason(
    home: Home, asked: dict[str, Any], told: str
) -> None:
    with pytest.raises(AskError, match=told):
        answer_series(home, **({"query": "busy"} | asked))


def test_a_range_without_any_answer_has_no_series_and_nothing_published_is_told(
    home: Home, tmp_path: Path
) -> None:
    assert answer_series(home, "busy", start="2026-02-01", end="2026-02-02") == []
    assert answer_series(home, "busy", where={"place": "cellar"}) == []
    with pytest.raises(NotPublished):
        answer_series(tmp_path, "busy")


def test_without_groups_a_tick_at_which_nothing_joins_counts_0(tmp_path: Path) -> None:
    told = Aggregated(query_of(PLAIN, streams()), streams(), [Answer(10, 4, group=())])
    home = replace(told, time=22).write(Home(tmp_path))
    publish(home, [], queries=[snapshot_of(home, told.query, streams(), None)])

    (one,) = answer_series(home, "busy", start="2026-01-01", end="2026-01-01T00:00:40", points=8)
    (later,) = answer_series(home, "busy", start="2026-01-01T00:00:15", end="2026-01-01T00:00:20")

    assert [(bucket.value, bucket.ticks) for bucket in one.buckets] == [
        *((0, 1), (0, 1), (4, 1), (0, 1), (0, 1)),
        *[(None, 0)] * 3,
    ]
    assert [bucket.value for bucket in later.buckets] == [0]

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import AskError, Question
from lakehouse.serving.ask.series import Bucket, buckets, buckets_by, series, series_by
from tests.serving.ask.test_ask import questions
from tests.serving.conftest import STREAMS, Lakehouse

SIDES = ("value", "low", "high")
FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW
@given(questions(), st.integers(1, 12))
def test_each_bucket_is_what_its_range_alone_answers(
    lakehouse: Lakehouse, question: Question, points: int
) -> None:
    connection = lakehouse.reader.connection

    found = buckets(connection, question, points).buckets

    assert len(found) == min(points, question.end_us - question.start_us)
    for bucket in found:
        (alone,) = answer(connection, _part(question, bucket))
        assert all(getattr(bucket, part) == getattr(alone, part) for part in ("exact", "rows", *SIDES))


def _part(question: Question, bucket: Bucket) -> Question:
    return Question(**(vars(question) | {"start_us": bucket.from_us, "end_us": bucket.to_us}))


def test_a_chart_of_too_many_buckets_for_the_series_keeps_its_nodes_as_they_are(lakehouse: Lakehouse) -> None:
    many = series(lakehouse.reader, "deep", "hits", "sum", -4000, 6000, points=10_000)
    few = series(lakehouse.reader, "deep", "hits", "sum", 1001, 1003, points=2)

    macro = lakehouse.reader.connection.execute(
        "SELECT low, high FROM range_series('deep', 'hits', make_timestamp(-4000), make_timestamp(6000), 10000, "
        "aggregate := 'sum')"
    ).fetchall()
    assert [(bucket.low, bucket.high) for bucket in many.buckets] == macro
    place = 1001 + 4000
    for wide, refined in zip(many.buckets[place : place + 2], few.buckets, strict=True):
        assert wide.low is not None and wide.high is not None
        # A part that is sure to hold nothing has no sum, and no sides.
        assert wide.low <= (refined.low or 0.0) and (refined.high or 0.0) < wide.high


@FEW
@given(questions(), st.integers(1, 50))
def test_buckets_follow_each_other_and_are_of_one_length(
    lakehouse: Lakehouse, question: Question, points: int
) -> None:
    found = buckets(lakehouse.reader.connection, question, points).buckets

    edges = [found[0].from_us, *(bucket.to_us for bucket in found)]
    assert (edges[0], edges[-1]) == (question.start_us, question.end_us)
    assert [bucket.from_us for bucket in found] == edges[:-1]
    assert max(b.to_us - b.from_us for b in found) - min(b.to_us - b.from_us for b in found) <= 1


@FEW
@given(questions(by=True), st.integers(1, 12))
@example(Question("deep", "temp", "sum", 0, 2, {}, ("device",)), 2)
def test_a_keys_series_is_what_is_answered_where_the_key_has_that_value(
    lakehouse: Lakehouse, question: Question, points: int
) -> None:
    assume(question.by)
    connection = lakehouse.reader.connection

    found = buckets_by(connection, question, points)

    assert [one.key for one in found] == [one.key for one in answer(connection, question)]
    for one in found:
        where = Question(**(vars(question) | {"where": question.where | one.key, "by": ()}))
        alone = buckets(connection, where, points)
        assert (one.grouping, one.as_of_version) == (alone.grouping, alone.as_of_version)
        assert len(one.buckets) == len(alone.buckets)
        for ours, theirs in zip(one.buckets, alone.buckets, strict=True):
            assert _but_sides(ours) == _but_sides(theirs)
            assert all(getattr(ours, side) == getattr(theirs, side) for side in SIDES)


def _but_sides(bucket: Bucket) -> tuple[int, int, bool, int]:
    return bucket.from_us, bucket.to_us, bucket.exact, bucket.rows


def test_buckets_without_a_row_of_their_key_are_there_too(lakehouse: Lakehouse) -> None:
    times = {row.event_us for row in STREAMS["sparse"].rows if row.device == "a"}

    (found, *_) = series_by(lakehouse.reader, "sparse", "*", "count", ["device"], 0, 2000, 500)

    assert (found.key, len(found.buckets)) == ({"device": "a"}, 500)
    for bucket in found.buckets:
        assert bucket.rows or not any(bucket.from_us <= time < bucket.to_us for time in times)
    assert {(0.0, 0.0, 0.0, 0)} == {(b.value, b.low, b.high, b.rows) for b in found.buckets if b.rows == 0}


def test_keys_can_be_named_and_the_first_ones_taken(lakehouse: Lakehouse) -> None:
    asked: dict[str, Any] = {"stream": "deep", "measure": "temp", "agg": "max", "points": 3}

    first = series_by(lakehouse.reader, **asked, by=["zone", "device"], where={"device": "b"}, limit=2)

    assert [one.key for one in first] == [{"zone": "0", "device": "b"}, {"zone": "1", "device": "b"}]
    whole = series_by(lakehouse.reader, **asked, by=["device"])
    assert [one.key["device"] for one in whole] == ["a", "b", "it's, {odd}=1", None]


def test_no_key_has_rows_where_there_are_none(lakehouse: Lakehouse) -> None:
    assert series_by(lakehouse.reader, "deep", "temp", "avg", ["device"], "2100-01-01", "2100-01-02") == []
    assert series_by(lakehouse.reader, "empty", "temp", "avg", ["device"]) == []


def test_more_keys_than_can_be_drawn_are_refused_with_what_to_do(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse.serving.ask.series.MOST_KEYS", 3)
    asked: dict[str, Any] = {"stream": "deep", "measure": "temp", "agg": "avg", "by": ["device"]}

    with pytest.raises(
        AskError, match=r"at most 3 keys.* by device: narrow with where, or .* limit of up to 3"
    ):
        series_by(lakehouse.reader, **asked)
    with pytest.raises(AskError, match="from 1 to that, found 4"):
        series_by(lakehouse.reader, **asked, limit=4)
    assert len(series_by(lakehouse.reader, **asked, limit=3)) == 3


def test_a_range_of_all_time_is_cut_without_overflow(lakehouse: Lakehouse) -> None:
    found = series(lakehouse.reader, "deep", "*", "count", "0001-01-02", "9999-12-30", 10_000)

    assert len(found.buckets) == 10_000
    assert sum(bucket.rows for bucket in found.buckets) == len(STREAMS["deep"].rows)


def test_without_a_range_all_that_came_in_is_shown(lakehouse: Lakehouse) -> None:
    rows = STREAMS["deep"].rows

    found = series(lakehouse.reader, "deep", "hits", "sum", points=7, where={"device": "a"})

    assert found.question.start_us == min(row.event_us for row in rows)
    assert found.question.end_us == max(row.event_us for row in rows) + 1
    assert found.grouping == ["device"]


def test_a_stream_without_rows_has_an_empty_bucket(lakehouse: Lakehouse) -> None:
    (bucket,) = series(lakehouse.reader, "empty", "temp", "avg").buckets

    assert (bucket.value, bucket.rows) == (None, 0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"points": 0}, "points must be from 1 to 10000, found 0"),
        ({"stream": "depp"}, "did you mean 'deep'"),
        ({"start": 9, "end": 9}, "must begin before it ends"),
    ],
)
def test_what_cannot_be_drawn_is_refused(lakehouse: Lakehouse, change: dict[str, Any], expected: str) -> None:
    asked: dict[str, Any] = {"stream": "deep", "measure": "temp", "agg": "avg", "points": 5} | change

    with pytest.raises(AskError, match=expected):
        series(lakehouse.reader, **asked)


@pytest.mark.parametrize("aggregate", ["sum", "count", "avg", "min", "max"])
def test_the_macro_gives_every_aggregate_by_key(lakehouse: Lakehouse, aggregate: str) -> None:
    rows = lakehouse.reader.connection.execute(
        "SELECT key['device'], bucket, value, low, high, epoch_us(starts_at), epoch_us(ends_at) FROM range_series("
        f"'deep', 'price', make_timestamp(7), make_timestamp(2500), 4, by := ['device'], aggregate := '{aggregate}')"
    ).fetchall()

    for device, _, value, low, high, start, end in rows:
        (alone,) = ask(lakehouse.reader, "deep", "price", aggregate, start, end, {"device": device})
        assert (value, low, high) == (alone.value, alone.low, alone.high)
    assert {row[1] for row in rows} == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("points", "aggregate", "expected"),
    [
        ("0", "sum", "points must be from 1 to 10000, found 0"),
        ("5", "median", "aggregate must be sum, count, avg, min or max, found median"),
    ],
)
def test_the_macro_says_what_it_takes(
    lakehouse: Lakehouse, points: str, aggregate: str, expected: str
) -> None:
    with pytest.raises(duckdb.Error, match=expected):
        lakehouse.reader.connection.execute(
            f"FROM range_series('deep', 'temp', '1970-01-01', '1970-01-02', {points}, aggregate := '{aggregate}')"
        )

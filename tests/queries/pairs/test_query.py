from __future__ import annotations

import pytest

from lakehouse.queries.language.words import clock_in_words, from_in_words
from lakehouse.queries.pairs.query import (
    PairsQuery,
    buckets_in_words,
    condition_in_words,
    policy_in_words,
)
from tests.queries.declared_streams import join_of, stream_of


def _query(on: str, clauses: str = "") -> PairsQuery:
    columns = {"x": "double", "y": "double", "count": "int"}
    streams = {name: stream_of(name=name, columns=columns) for name in ("left_one", "right_one")}
    text = f"SELECT a.x FROM left_one [RANGE 2 SECONDS] a JOIN right_one ON {on} RECALL 0.95 OVER 1 MINUTE {clauses}"
    return join_of("asked", text, streams)


@pytest.mark.parametrize(
    ("on", "told"),
    [
        ("a.device = right_one.device", "a.device = right_one.device"),
        (
            "a.device = right_one.device AND a.x < right_one.y + 0.5 AND a.x <> right_one.x",
            "a.device = right_one.device and a.x <> right_one.x and a.x < right_one.y + 0.5",
        ),
        ("ABS(a.x - right_one.y) <= 2.5", "|a.x - right_one.y| <= 2.5"),
        (
            "DISTANCE(a.x, a.y, right_one.x, right_one.y) <= 5",
            "distance of (a.x, a.y) and (right_one.x, right_one.y) <= 5",
        ),
    ],
)
def test_a_condition_is_told_by_its_columns(on: str, told: str) -> None:
    assert condition_in_words(_query(on)) == told


def test_an_alias_is_told_where_there_is_one() -> None:
    assert from_in_words(_query("a.x = right_one.x").sides) == "left_one a join right_one"


def test_buckets_are_told_by_what_meets_in_them() -> None:
    assert buckets_in_words(_query("a.x = right_one.x"), "8") == "8, by hash of the keys"
    slack, near = "POLICY NEEDED_SLACK", "DISTANCE(a.x, a.y, right_one.x, right_one.y) <= 1"
    assert "up to 3" in buckets_in_words(_query("ABS(a.x - right_one.x) <= 1", slack), "8")
    assert "up to 9" in buckets_in_words(_query(near, slack), "8")
    assert buckets_in_words(_query(near), "1").endswith("any key; POLICY NEEDED_SLACK divides them")


@pytest.mark.parametrize(
    ("on", "policy", "is_divided"),
    [
        ("a.device = right_one.device", "POLICY PER_SOURCE", True),
        ("a.device = right_one.device AND a.room = right_one.room", "POLICY PER_SOURCE", True),
        ("a.device = right_one.device", "POLICY PER_SOURCE BY device", True),
        ("a.device = right_one.device", "POLICY PER_SOURCE BY room", False),
        ("a.device = right_one.device", "POLICY PER_SOURCE BY a.room", False),
        ("a.x = right_one.x", "POLICY PER_SOURCE", False),
        ("a.x = right_one.x", "", True),
        ("a.device = right_one.device AND ABS(a.x - right_one.x) <= 1", "POLICY PER_SOURCE", True),
        ("ABS(a.x - right_one.x) <= 1", "POLICY PER_SOURCE", False),
        ("DISTANCE(a.x, a.y, right_one.x, right_one.y) <= 1", "POLICY PER_SOURCE", False),
        ("DISTANCE(a.x, a.y, right_one.x, right_one.y) <= 1", "", False),
        ("DISTANCE(a.x, a.y, right_one.x, right_one.y) <= 1", "POLICY NEEDED_SLACK", True),
    ],
)
def test_rows_are_not_divided_if_a_watched_source_could_send_to_several_buckets(
    on: str, policy: str, is_divided: bool
) -> None:
    asked = _query(on, policy)
    assert asked.is_divided == is_divided
    assert buckets_in_words(asked, "1").startswith("1, as sources may send rows of any key") != is_divided


def test_a_policy_is_told_with_what_it_aims_at() -> None:
    assert policy_in_words(_query("a.x = right_one.x")).endswith(
        "each past 1m would have reached 0.9875, or more while a bucket holds at most 1,024 rows"
    )
    assert policy_in_words(_query("a.x = right_one.x", "SPARE 0 ROWS")).endswith("would have reached 0.9875")
    assert policy_in_words(_query("a.x = right_one.x", "POLICY PAPER")).startswith("paper: every 1s")
    by_source = policy_in_words(_query("a.x = right_one.x", "POLICY PER_SOURCE BY a.count"))
    assert by_source.startswith(
        "per_source: rows wait for a source that has fallen silent, a.count and right_one.device, right_one.room;"
    )


def _clock(query: PairsQuery) -> str:
    return clock_in_words(query.clock.idle_us, query.clock.ahead_of_arrival_us, "side")


def test_clocks_are_told_with_what_they_are_held_to() -> None:
    equal = "a.x = right_one.x"
    assert _clock(_query(equal)) == "waits for a silent side; every event time is believed"
    told = _clock(_query(equal, "IDLE 10 MINUTES AHEAD 1 HOUR"))
    assert told == "goes on without a side that is silent for 10m; refuses event times more than 1h ahead"

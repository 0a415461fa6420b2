from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.algorithms.join_aggregate.contract import Aggregate, Shape
from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate import query as words
from lakehouse.queries.aggregate.query import AggregateQuery, places_of, shape_of
from lakehouse.queries.language.words import from_in_words
from tests.queries.answered import PLAIN, TEXT, declare, query_of
from tests.queries.declared_streams import aggregate_of, stream_of

CHAIN = """\
SELECT asks.place AS spot, c.floor, COUNT(b.place) AS known, SUM(ABS(b.temp) * 2 - b.floor) AS heat
FROM asks [10 MINUTES], replies [1 HOUR] b, asks [30 SECONDS] c
WHERE asks.place = b.place AND b.floor = c.floor
GROUP BY asks.place, c.floor HAVING known > 3 OR MIN(c.temp) IS NULL
EVERY 1 MINUTE IDLE 10 MINUTES
"""
STREAMS = {name: stream_of(name=name, columns={"x": "int", "y": "double", "k": "string"}) for name in "abc"}
FROM = "FROM a [1 HOUR], b [1 HOUR], c [1 DAY] WHERE a.device = b.device AND b.k = c.k"


@pytest.fixture
def streams(tmp_path: Path) -> dict[str, Stream]:
    return declare(tmp_path).streams


@pytest.fixture
def chain(streams: dict[str, Stream]) -> AggregateQuery:
    return query_of(CHAIN, streams)


def test_streams_have_their_windows_and_an_alias_where_it_says_more(chain: AggregateQuery) -> None:
    assert sorted(from_in_words(chain.sides).split(" join ")) == [
        "asks [10m]",
        "asks [30s] c",
        "replies [1h] b",
    ]


def test_columns_that_must_be_equal_stand_together(chain: AggregateQuery) -> None:
    found = words.equalities_in_words(chain).split(" and ")

    assert sorted(sorted(one.split(" = ")) for one in found) == [
        ["asks.place", "b.place"],
        ["b.floor", "c.floor"],
    ]


def test_aggregates_are_told_as_they_could_be_written(chain: AggregateQuery) -> None:
    told = {each.name: words.measure_in_words(chain, each) for each in chain.measures}

    assert told == {
        "known": "count(b.place)",
        "heat": "sum(ABS(b.temp) * 2 - b.floor)",
        "having_1": "min(c.temp)",
    }
    assert words.shown_in_words(chain) == "known = count(b.place), heat = sum(ABS(b.temp) * 2 - b.floor)"


def test_having_names_outputs_and_writes_its_own_aggregates_out(chain: AggregateQuery) -> None:
    assert "known > 3 OR min(c.temp) IS NULL" in words.having_in_words(chain)


def test_groups_are_told_with_the_names_they_have_in_answers(
    chain: AggregateQuery, streams: dict[str, Stream]
) -> None:
    # Of equal columns the group is named after the first in the query's own order.
    spot, floor = words.groups_in_words(chain).split(", ")

    assert spot.endswith(".place as spot") and floor.endswith(".floor")
    assert words.groups_in_words(query_of(PLAIN, streams)) == "none: one answer at each tick"


def test_clocks_and_slack_are_told_with_their_limits(
    chain: AggregateQuery, streams: dict[str, Stream]
) -> None:
    busy = query_of(TEXT, streams)

    assert words.ticks_in_words(chain).startswith(
        "every 1m, once all streams have passed it; goes on without a stream"
    )
    assert "waits for a silent stream" in words.ticks_in_words(busy)
    assert words.slack_in_words(chain) == "none: every late row waits for the repair"
    assert "up to 30s behind the last tick" in words.slack_in_words(busy)


def test_the_method_is_told_with_why_and_what_else_could_run_it(chain: AggregateQuery) -> None:
    others = words.other_methods_in_words(chain)

    assert words.method_in_words(chain) == f"view_tree: {chain.why}"
    assert others.startswith(
        "multiway could run it too; not factorised: not all streams are joined on the same"
    )
    assert [name for name, why_not in words.methods_of(chain) if why_not] == [
        "factorised",
        "tuple_count",
        "incremental",
    ]


def test_rows_are_spread_by_what_all_streams_carry(chain: AggregateQuery, streams: dict[str, Stream]) -> None:
    assert (
        words.spread_in_words(chain, "1") == "1: no column is common to all streams, so all rows are in one"
    )
    assert words.spread_in_words(query_of(TEXT, streams), "8") == "8, by hash of a.place = b.place"


def _asked(select: str, more: str = "") -> AggregateQuery:
    return aggregate_of("asked", f"SELECT {select} {FROM} {more} EVERY 1 MINUTE", STREAMS)


def test_a_shape_has_the_attributes_and_groups_of_each_side() -> None:
    query = _asked("b.room, COUNT(*)", "GROUP BY b.room")

    assert shape_of(query) == Shape(((0,), (0, 1), (1,)), (False, True, False))
    assert places_of(query) == ((),)


def test_a_group_of_equal_columns_is_of_one_side_only() -> None:
    assert shape_of(_asked("c.k, COUNT(*)", "GROUP BY b.k, c.k")).grouped == (False, True, False)


def test_measures_share_aggregates_and_an_average_is_a_sum_which_counts_infinite_doubles() -> None:
    query = _asked("AVG(a.y), COUNT(*), SUM(a.y) AS s, COUNT(a.y), MAX(c.x), SUM(a.x)", "HAVING SUM(a.y) > 3")

    assert shape_of(query).aggregates == (
        Aggregate("sum", 0, 0, limbs=2),
        Aggregate("count", 0, 2),
        Aggregate("sum", 0, 2),
        Aggregate("count", 0, 3),
        Aggregate("count", 0, 4),
        Aggregate("max", 2, 0, limbs=2),
    )
    assert places_of(query) == ((2, 3, 4), (), (2, 3, 4), (1,), (5,), (0,))


def test_aggregates_do_not_depend_on_the_order_of_select() -> None:
    one, two = _asked("MIN(a.y), MAX(b.x)", "HAVING SUM(c.x) > 1"), _asked("MAX(b.x), MIN(a.y), SUM(c.x)")

    assert shape_of(one) == shape_of(two)
    assert (places_of(one), places_of(two)) == (((0,), (1,), (2,)), ((1,), (0,), (2,)))

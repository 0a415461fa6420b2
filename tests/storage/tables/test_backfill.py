from __future__ import annotations

from dataclasses import replace

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US
from lakehouse.storage.tables.backfill import new_columns, plan_backfill
from lakehouse.storage.tables.rollup_table import RollupSchema, declared_schema
from tests.queries.declared_streams import DAY, HOUR, SECOND, stream_of

NEWEST = 1000 * DAY + 5 * HOUR
RAW = 990 * DAY


def built_for(**changes: object) -> RollupSchema:
    """An old rollup whose floors are its horizons."""
    schema = declared_schema(stream_of(**changes))
    return replace(schema, floors=tuple(schema.horizons(NEWEST)))


def test_with_all_raw_rows_nothing_is_carried_over_and_nothing_lacks() -> None:
    plan = plan_backfill(stream_of(levels=["1m for 1d", "1d forever"]), built_for(), None, 0)

    assert (plan.from_us, plan.sources, plan.schema.floors, plan.refusals) == (KEPT_FOREVER_US, {}, (), [])


def test_a_level_comes_from_the_coarsest_that_divides_it_and_reaches_as_far_back() -> None:
    plan = plan_backfill(stream_of(levels=["1s for 1h", "1h for 20d", "1d forever"]), built_for(), RAW, 0)

    assert plan.sources == {1: 1, 2: 2, 3: 3}
    assert plan.schema.floors == (RAW, RAW, KEPT_FOREVER_US)
    assert plan.schema.horizons(NEWEST)[0] == 1000 * DAY + 4 * HOUR
    assert plan.refusals == []


def test_a_level_finer_than_all_begins_with_raw() -> None:
    old = built_for(levels=["1m for 2d", "1d forever"])

    plan = plan_backfill(stream_of(levels=["1s for 30d", "1m for 31d", "1d forever"]), old, RAW, 0)

    assert plan.sources == {2: 1, 3: 2}
    assert plan.schema.floors == (RAW, RAW, KEPT_FOREVER_US)
    assert plan.schema.lacks(NEWEST) == [
        "level 1s: its nodes are kept since 1972-09-17 00:00:00 only",
        "level 1m: its nodes are kept since 1972-09-17 00:00:00 only",
    ]


def test_raw_is_used_from_the_first_whole_node_of_the_new_top_level() -> None:
    plan = plan_backfill(stream_of(levels=["1s for 1h", "1d for 8d", "7d forever"]), built_for(), RAW, 0)

    assert plan.from_us == 994 * DAY
    assert plan.schema.floors[2] == KEPT_FOREVER_US


def test_a_top_level_that_cannot_hold_the_old_history_is_refused_unless_there_is_none() -> None:
    finer = stream_of(levels=["1s for 1h", "1h forever"])

    refused = plan_backfill(finer, built_for(), RAW, 0)
    young = plan_backfill(finer, built_for(), RAW, 999 * DAY)

    assert refused.refusals == [
        "nodes of 1h cannot hold the history older than raw, which is kept in nodes of 1d: "
        "keep a last level of 1d or a multiple of it"
    ]
    assert young.refusals == []


def test_a_grouping_comes_from_the_smallest_that_has_its_keys() -> None:
    old = built_for(groupings=[["device", "room"], ["room"]])

    plan = plan_backfill(stream_of(groupings=[[], ["device"], ["room", "device"]]), old, RAW, 0)

    assert (plan.groupings, plan.refusals) == ({0: 1, 1: 0, 2: 0}, [])


def test_a_grouping_that_no_old_one_has_the_keys_of_is_refused() -> None:
    (refusal,) = plan_backfill(stream_of(groupings=[["device"], ["room"]]), built_for(), RAW, 0).refusals

    assert refusal.startswith("grouping ['room'] cannot be had for times whose raw rows are gone")


def test_what_older_raw_rows_lack_is_known_since_later_or_refused() -> None:
    later = {"volts": 995 * DAY, "room": 996 * DAY}
    stream = stream_of(measures=["temp", "volts"], groupings=[["device"], ["room"]])
    old = built_for(groupings=[["device"]])

    assert new_columns(stream, old) == ["volts", "room"]
    for raw_us in (None, RAW):
        plan = plan_backfill(stream, old, raw_us, 0, later)
        assert plan.schema.since == {"volts": 995 * DAY}
        assert (
            "grouping ['room'] cannot be had: raw rows before 1972-09-23 00:00:00 have no room"
            in plan.refusals
        )


def test_a_measure_that_is_new_or_of_another_type_is_known_since_raw() -> None:
    old = replace(built_for(measures=["temp", "count"]), since={"temp": 5 * SECOND, "count": 7})

    kept = plan_backfill(stream_of(measures=["temp", "volts"]), old, RAW, 0)
    retyped = plan_backfill(stream_of(measures=["temp"], columns={"temp": "int"}), old, RAW, 0)

    assert kept.schema.since == {"temp": 5 * SECOND, "volts": RAW}
    assert retyped.schema.since == {"temp": RAW}

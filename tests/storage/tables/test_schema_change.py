from __future__ import annotations

from lakehouse.storage.tables.rollup_table import declared_schema
from lakehouse.storage.tables.schema_change import compare_schemas
from tests.queries.declared_streams import DAY, HOUR, stream_of

NEWEST = 1000 * DAY + 5 * HOUR
BUILT = declared_schema(stream_of())


def test_the_same_declaration_changes_nothing() -> None:
    found = compare_schemas(stream_of(latest="2d", keep_raw="5d"), BUILT, NEWEST, None, 0)

    assert (found.needs_rebuild, found.effects, found.lacks, found.refusals) == (False, (), (), ())


def test_a_shorter_time_kept_says_which_nodes_go_and_what_is_finest_then() -> None:
    found = compare_schemas(
        stream_of(levels=["1s for 2m", "1m for 1d", "1d forever"]), BUILT, NEWEST, None, 0
    )

    assert not found.needs_rebuild and not found.refusals
    assert found.effects == (
        "level 1s: kept for 2m instead of 1h: its nodes before 1972-09-27 04:58:00 go, 1m is the finest there then",
        "level 1m: kept for 1d instead of 2d: its nodes before 1972-09-26 00:00:00 go, 1d is the finest there then",
    )


def test_a_longer_time_kept_holds_from_now_on() -> None:
    (told,) = compare_schemas(
        stream_of(levels=["1s for 9h", "1m for 2d", "1d forever"]), BUILT, NEWEST, None, 0
    ).effects

    assert told == (
        "level 1s: kept for 9h instead of 1h: from now on; its nodes before 1972-09-27 04:00:00 are gone and stay gone"
    )


def test_a_last_level_that_would_forget_history_is_refused() -> None:
    shorter = stream_of(levels=["1s for 1h", "1m for 2d", "1d for 30d"])

    assert "which no other holds" in compare_schemas(shorter, BUILT, NEWEST, None, 0).refusals[0]
    assert compare_schemas(shorter, BUILT, NEWEST, None, 999 * DAY).refusals == ()


def test_a_change_of_structure_needs_a_rebuild_and_says_from_what() -> None:
    changed = stream_of(measures=["count"], levels=["1m for 2d", "1d forever"], groupings=[["device"]])

    from_raw = compare_schemas(changed, BUILT, NEWEST, None, 0)
    from_both = compare_schemas(changed, BUILT, NEWEST, 990 * DAY, 0)

    assert from_raw.needs_rebuild
    assert from_raw.effects == (
        "level 1s goes",
        "grouping [] goes",
        "measure count is new",
        "measure temp goes",
        "`tidemark rebuild readings` builds all nodes again, from raw rows",
    )
    assert from_both.effects[-1].endswith(
        "from raw rows since 1972-09-17 00:00:00, and before that from the nodes that are there"
    )
    assert from_both.lacks == ("measure count: its values are known since 1972-09-17 00:00:00 only",)


def test_before_the_first_row_nothing_can_be_lost() -> None:
    assert not compare_schemas(
        stream_of(levels=["1s for 9h", "1m for 2d", "1d forever"]), BUILT, None, None, None
    ).effects

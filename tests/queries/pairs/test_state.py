from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.cli.queries.pairs import found_in_words
from lakehouse.queries.pairs.completeness import PairsCompleteness
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.state import PairsState
from lakehouse.queries.runtime.batch_manifest import BatchManifest, Scale, write_manifest
from lakehouse.queries.runtime.state import Declared, Facts, explain
from lakehouse.settings import Settings
from tests.queries.joined import (
    FIGURES,
    SECOND,
    START_US,
    TEXT,
    declare,
    run_by_hand,
    write_figures,
    write_late,
    write_pairs,
    write_plans,
    write_repairs,
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = declare(tmp_path)
    run_by_hand(found)
    return found


def _state(settings: Settings) -> PairsState:
    return PairsState(settings.layout, settings.of_kind(PairsQuery)["replies"])


def _completeness(settings: Settings) -> PairsCompleteness:
    return _state(settings).completeness


def _facts(settings: Settings) -> Facts:
    return explain(_state(settings), Declared(settings.streams, settings.sites, None))


def test_a_plan_is_there_before_the_first_batch(tmp_path: Path) -> None:
    facts = _facts(declare(tmp_path))

    assert facts["plan"]["judged_recall"] == pytest.approx(0.9875)
    assert [side["where"] for side in facts["plan"]["sides"]] == ["`location` = 'hall'", None]
    assert (facts["buckets"], facts["last_batches"], facts["last_repairs"]) == ([], [], [])
    assert (facts["completeness"]["periods"], facts["completeness"]["recall"]) == (0, None)
    assert facts["to_repair"] == {
        "rows": 0,
        "oldest_us": None,
        "newest_us": None,
        "batches": None,
        "begun": False,
    }


def test_conditions_that_call_a_predicate_are_told_like_others(tmp_path: Path) -> None:
    (tmp_path / "predicates").mkdir()
    (tmp_path / "predicates" / "odd.py").write_text("def odd(temp):\n    return temp\n", encoding="utf-8")
    settings = declare(tmp_path, replies=TEXT.replace("WHERE ", "WHERE odd(r.temp) AND "))

    where = [side["where"] for side in _facts(settings)["plan"]["sides"]]

    assert where == ["`location` = 'hall' AND odd(temp)", None]


def test_a_bucket_is_told_as_the_last_batch_left_it_with_all_it_has_counted(settings: Settings) -> None:
    first, second = _facts(settings)["buckets"]

    assert (first["held"], first["bytes"], first["left_slack_us"], first["right_slack_us"]) == (
        130,
        9500,
        10_000,
        1_500_000,
    )
    assert (first["missed"], first["unusable"], second["refused"], second["rows"]) == (12, 3, 1, 940)


def test_where_their_number_has_changed_buckets_tell_what_they_have_counted_since(settings: Settings) -> None:
    run_by_hand(settings)
    query = settings.of_kind(PairsQuery)["replies"]
    write_plans(settings.layout, query, scales=(Scale(1, 4), Scale(2, 2)))

    facts = _facts(settings)

    assert (facts["plan"]["buckets"], facts["plan"]["spread"]) == (2, "2 since batch 2, by hash of the keys")
    assert [bucket["rows"] for bucket in facts["buckets"]] == [500, 40]
    assert facts["rows"] == 2440


def test_a_batch_is_the_sum_of_its_buckets_with_the_range_of_their_slacks(settings: Settings) -> None:
    first, second = _facts(settings)["last_batches"]

    assert (first["batch"], first["rows"], first["missed"], first["most_held"]) == (1, 1900, 15, 260)
    assert (second["left_slack_us"], second["right_slack_us"]) == ((0, 10_000), (30_000, 1_500_000))
    assert second["time_us"] == START_US + 300 * SECOND


def test_periods_are_met_and_missed_by_what_was_found_at_once(settings: Settings) -> None:
    found = _facts(settings)["completeness"]

    # Of 600 pairs of a minute 30 may be repaired: six seconds of five.
    missed = sum(5 * _shared(start, start + 60) > 30 for start in range(241))
    assert (found["periods"], found["scored"], found["missed"]) == (241, 241, missed)
    assert (found["pairs_online"], found["pairs_repaired"], found["recall"]) == (2850, 150, 0.95)
    assert (found["repaired_wait_mean_us"], found["wait_mean_us"]) == (7 * SECOND, 350_000)


def _shared(start: int, end: int) -> int:
    return max(0, min(end, 130) - max(start, 100))


def test_the_worst_period_is_told_once_and_open_as_long_as_a_logged_row_may_belong_to_it(
    settings: Settings,
) -> None:
    (worst,) = _facts(settings)["completeness"]["worst"]

    assert (worst["recall"], worst["pairs"], worst["online"], worst["open"]) == (0.75, 600, 450, True)
    assert worst["from_us"] == START_US + 70 * SECOND

    write_repairs(settings.layout, "replies", [(1, 1, 15, 150, 2, 207), (2, 2, 2, 0, 0, 300)])
    found = _facts(settings)["completeness"]
    assert ([miss["open"] for miss in found["worst"]], found["missed_open"]) == ([False], 0)


@pytest.mark.parametrize(
    ("second", "horizon", "opened"),
    [
        *[(0, 900, [0]), (59, 900, [0, 60]), (58, 900, [0, 60]), (57, 900, [0]), (119, 900, [60, 120])],
        *[(59, 58, [0]), (58, 59, [0]), (58, 60, [0, 60])],
    ],
)
def test_a_period_is_open_when_the_newer_row_of_a_pair_to_come_may_lie_in_it(
    tmp_path: Path, second: int, horizon: int, opened: list[int]
) -> None:
    settings = declare(tmp_path)
    run_by_hand(settings)
    write_pairs(settings.layout, "replies", online=[(at, 10) for at in range(180)], repaired=[])
    write_late(settings.layout, "replies", [("missed", second, 2)], horizon)

    completeness = _completeness(settings)

    starts = (completeness.periods.start_us[completeness.is_open] - START_US) // SECOND
    assert [int(start) for start in starts if start % 60 == 0] == opened


def test_pairs_of_a_batch_or_repair_that_is_not_finished_are_not_counted_yet(settings: Settings) -> None:
    write_figures(settings.layout, "replies", FIGURES[:2])
    write_pairs(settings.layout, "replies", online=[(0, 100)], repaired=[(0, 50)], batch=2)

    found = _facts(settings)["completeness"]

    assert (found["periods"], found["pairs_online"], found["pairs_repaired"]) == (0, 0, 0)


def test_what_is_to_repair_is_told_with_its_batches_and_times(settings: Settings) -> None:
    write_manifest(settings.layout.batch_manifests("replies"), "repair", BatchManifest(2, ((1, 2),)))

    assert _facts(settings)["to_repair"] == {
        "rows": 2,
        "oldest_us": START_US + 120 * SECOND,
        "newest_us": START_US + 121 * SECOND,
        "batches": [2, 2],
        "begun": True,
    }


def test_over_time_every_stretch_has_the_worst_period_that_begins_in_it(settings: Settings) -> None:
    stretches = _completeness(settings).recall_over_time(10)

    assert len(stretches) <= 10 and sum(stretch["periods"] for stretch in stretches) == 241
    assert min(stretch["worst"]["recall"] for stretch in stretches) == 0.75
    assert [s["from_us"] for s in stretches[1:]] == [s["to_us"] for s in stretches[:-1]]


def test_over_time_waits_are_those_of_repaired_pairs(settings: Settings) -> None:
    stretches = _completeness(settings).waits_over_time(10)

    assert len(stretches) == 10
    assert (sum(s["pairs"] for s in stretches), sum(s["repaired"] for s in stretches)) == (3000, 150)
    assert {s["repaired_wait_p99_us"] for s in stretches} == {None, 7 * SECOND}


def test_where_periods_missed_their_recall_the_slack_that_all_needed_is_told(tmp_path: Path) -> None:
    settings = declare(tmp_path)
    layout = settings.layout
    write_plans(layout, settings.of_kind(PairsQuery)["replies"])
    write_figures(layout, "replies", FIGURES)
    # Of a hundred pairs of one second ten were missed, by a row that came a minute late.
    write_pairs(layout, "replies", online=[(100, 90), (200, 90)], repaired=[(200, 10)])
    write_late(layout, "replies", [("missed", 200, 1)])
    write_repairs(layout, "replies", [(1, 1, 1, 10, 0, 260)])

    facts = _facts(settings)

    # 2,440 rows in 101 s, each held for a minute and the window of 2 s; two outputs a pair, one number.
    held = round(2440 * 62 / 101)
    enough = {"slack_us": 60 * SECOND + 1, "rows": held, "bytes": held * (88 + 8 + 16)}
    assert (facts["enough_slack"], facts["late_slack"]) == (enough, None)
    assert any("a slack of 1 min: about 1,498 rows held, 0.17 MB" in line for line in found_in_words(facts))
    assert any("POLICY PER_SOURCE" in line for line in found_in_words(facts))


def test_before_a_repair_it_is_told_how_late_rows_were_and_what_the_slack_for_them_would_hold(
    tmp_path: Path,
) -> None:
    settings = declare(tmp_path)
    layout = settings.layout
    write_plans(layout, settings.of_kind(PairsQuery)["replies"], repairs=0)
    # Five rows in twenty may be late at the recall of 0.95 where one may.
    write_figures(layout, "replies", [(1, n, 10, 5, 3 - n, 0, 0, 9, 9, 900, 0, 0, 300) for n in (0, 1)])
    write_pairs(layout, "replies", online=[(100, 90), (200, 90)], repaired=[])
    # Each came a minute late; those of bucket 1 are those of odd seconds.
    write_late(layout, "replies", [("missed", at, 1) for at in (100, 102, 101, 104, 103)])

    facts = _facts(settings)

    slack = 62 * SECOND + 1
    held = {"slack_us": slack, "rows": round(20 * 64 / 101), "bytes": round(20 * 64 / 101) * 112}
    assert facts["late_slack"] == {
        "rows": 5,
        "for_recall": held,
        "for_all": held,
    }
    assert [bucket["late_us"] for bucket in facts["buckets"]] == [slack, slack]
    assert any("5 rows came too late" in line and "1 min" in line for line in found_in_words(facts))
    assert not any("POLICY PER_SOURCE" in line for line in found_in_words(facts))

    write_repairs(layout, "replies", [(1, 1, 5, 0, 0, 300)])
    assert _facts(settings)["late_slack"] is None

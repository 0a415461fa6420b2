from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli.queries.aggregate import found_in_words, waiting_in_words
from lakehouse.queries.aggregate.live_answers import over_time
from lakehouse.queries.aggregate.publish import AggregateSnapshot, snapshot_of
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.state import AggregateState
from lakehouse.queries.runtime.batch_manifest import BatchManifest, write_manifest
from lakehouse.queries.runtime.state import Declared, explain, overview
from lakehouse.settings import Settings
from tests.queries.answered import EVERY, PLAIN, TEXT, Aggregated, Alarm, Answer, Logged, declare, us
from tests.queries.joined import write_ledger

MANY = """\
SELECT COUNT(*) AS n FROM asks [10 SECONDS] a, replies [1 MINUTE] b, asks [5 SECONDS] c
WHERE a.place = b.place AND b.floor = c.floor EVERY 5 SECONDS METHOD MULTIWAY IDLE 1 MINUTE
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return declare(tmp_path)


def told(settings: Settings) -> Aggregated:
    """Two batches and a repair of the first; alarms of two groups, and a row that waits."""
    answers = [Answer(tick, 6 + tick // 20) for tick in range(0, 90, EVERY)]
    answers += [Answer(tick, 40 - tick // 5, group=(None,), batch=2) for tick in range(90, 101, EVERY)]
    answers += [Answer(tick, 9, revision=1, batch=2) for tick in (80, 85)]
    answers += [Answer(5, 2, revision=1, holds=False, found="repair"), Answer(95, batch=3)]
    alarms = [
        Alarm("a", 0),
        Alarm("a", 0, 5, state="cleared", change=1, found="repair"),
        Alarm("b", 10, found="repair"),
        Alarm("c", 90, group=(None,), batch=2),
        Alarm("d", 95, batch=3),
    ]
    late = [Logged(1, 9), Logged(80, 99, 2), Logged(91, 99, 2), Logged(3, 9, 2, "refused")]
    query = settings.of_kind(AggregateQuery)["busy"]
    return Aggregated(query, settings.streams, answers, alarms, late, batches=2, repairs=(1,))


def facts_of(settings: Settings, name: str = "busy") -> dict[str, Any]:
    query = settings.of_kind(AggregateQuery)[name]
    state = AggregateState(settings.layout, query)
    return explain(state, Declared(settings.streams, settings.sites, None))


def answers_of(settings: Settings, name: str = "busy") -> AggregateSnapshot:
    return snapshot_of(settings.layout, settings.of_kind(AggregateQuery)[name], settings.streams, None)


def test_one_line_tells_of_answers_alarms_and_what_is_owed(settings: Settings) -> None:
    told(settings).write(settings.layout)

    (facts,) = overview(settings.layout, settings.registered)["queries"]

    assert (facts["kind"], facts["state"], facts["batches"], facts["rows"]) == ("aggregate", "current", 2, 40)
    assert (facts["answered"], facts["revised"], facts["repaired"], facts["alarms"]) == (21, 2, 1, 2)
    assert (facts["open"], facts["held"], facts["state_bytes"], facts["newest_us"]) == (2, 42, 1300, us(100))
    assert (facts["from_clause"], facts["condition"]) == (
        "asks [10s] a join replies [1m] b",
        "a.place = b.place",
    )
    assert facts["outputs"] == {"n": "count(*)", "warmth": "avg(b.temp)"}


def test_a_query_that_never_ran_has_a_plan_and_waits_for_what_has_come(settings: Settings) -> None:
    write_ledger(settings.layout, "asks", 3)

    facts = facts_of(settings)

    assert (facts["state"], facts["waiting"]) == ("new", {"asks": 3, "replies": 0})
    assert (facts["buckets"], facts["last_batches"], facts["raised"], facts["ended"]) == ([], [], [], [])
    assert (facts["final_before_us"], facts["alarms"], facts["newest_us"]) == (None, 0, None)
    assert facts["plan"]["having"] == "max(b.temp) < 90 AND n > 5"


def test_a_query_means_something_else_when_its_method_does(tmp_path: Path, settings: Settings) -> None:
    told(settings).write(settings.layout)
    forced = declare(tmp_path, busy=TEXT.replace("ALARM", "METHOD MULTIWAY ALARM"))
    told_with_description = declare(tmp_path / "other", busy=TEXT.replace("places", "rooms"))

    assert facts_of(forced)["state"] == "changed"
    assert "METHOD multiway" in facts_of(forced)["means"]
    assert "METHOD factorised" in facts_of(forced)["meant_before"]
    moved = told_with_description.model_copy(update={"home": settings.home})
    assert facts_of(moved)["state"] == "current"


def test_a_plan_tells_the_method_why_it_was_taken_and_what_could_run_it_too(
    tmp_path: Path, settings: Settings
) -> None:
    chosen = facts_of(settings)["plan"]
    forced = facts_of(declare(tmp_path, many=MANY), "many")["plan"]

    assert (chosen["method"], chosen["is_forced"]) == ("factorised", False)
    assert chosen["run_by"].startswith("factorised: all streams are joined on the same")
    assert [each["method"] for each in chosen["methods"] if each["why_not"] is None] == [
        *("factorised", "view_tree", "multiway", "tuple_count")
    ]
    assert (forced["method"], forced["is_forced"]) == ("multiway", True)
    assert forced["run_by"].startswith("multiway: ")
    assert forced["others"].startswith("view_tree could run it too; not factorised: ")


def test_where_no_column_is_common_to_all_streams_one_bucket_holds_all(
    tmp_path: Path, settings: Settings
) -> None:
    new = facts_of(settings)["plan"]
    told(settings).write(settings.layout)
    spread = facts_of(settings)["plan"]
    alone = facts_of(declare(tmp_path, many=MANY), "many")["plan"]

    assert (spread["buckets"], spread["spread"]) == (8, "8, by hash of a.place = b.place")
    assert (new["buckets"], new["spread"].partition(",")[0]) == (None, "none yet")
    assert (alone["buckets"], alone["spread"].partition(":")[0]) == (None, "1")


def test_a_bucket_is_told_as_the_last_batch_left_it_with_all_it_has_counted(settings: Settings) -> None:
    told(settings).write(settings.layout)

    first, second = facts_of(settings)["buckets"]

    assert (first["bucket"], first["held"], first["bytes"], first["rows"], first["late"]) == (
        0,
        30,
        900,
        20,
        4,
    )
    assert (first["missed"], second["bucket"], second["refused"], second["unusable"]) == (3, 3, 1, 2)


def test_a_batch_is_the_sum_of_its_buckets_with_what_it_answered(settings: Settings) -> None:
    told(settings).write(settings.layout)

    first, second = facts_of(settings)["last_batches"]

    assert (first["batch"], first["rows"], first["answered"], first["revised"], first["held"]) == (
        1,
        20,
        18,
        0,
        42,
    )
    assert (second["answered"], second["revised"], second["late"], second["missed"]) == (3, 2, 4, 2)
    assert second["time_us"] == us(100)


def test_alarms_raised_now_and_those_that_ended_are_told_of_what_is_finished(settings: Settings) -> None:
    told(settings).write(settings.layout)

    facts = facts_of(settings)

    assert [(row["alarm"], row["group"], row["raised_us"]) for row in facts["raised"]] == [
        ("c", {"place": None}, us(90)),
        ("b", {"place": "hall"}, us(10)),
    ]
    (ended,) = facts["ended"]
    assert (ended["alarm"], ended["state"], ended["cleared_us"], ended["changes"]) == (
        "a",
        "cleared",
        us(5),
        1,
    )
    assert ended["final"]


def test_what_waits_for_repair_holds_back_what_is_final(settings: Settings) -> None:
    told(settings).write(settings.layout)
    write_manifest(settings.layout.batch_manifests("busy"), "repair", BatchManifest(2, ((1, 2),)))

    facts = facts_of(settings)

    assert facts["to_repair"] == {
        "rows": 2,
        "oldest_us": us(80),
        "newest_us": us(91),
        "batches": [2, 2],
        "begun": True,
    }
    assert facts["final_before_us"] == us(80)


def test_over_time_every_output_has_the_groups_with_the_greatest_values(settings: Settings) -> None:
    rooms = [Answer(50, 100 + n, group=(f"room {n:02}",)) for n in range(14)]
    base = told(settings)
    replace(base, answers=[*base.answers, *rooms]).write(settings.layout)

    found = over_time(answers_of(settings), 4)

    assert found.groups == 16
    assert [series[0].question.output for series in found.outputs] == ["n", "warmth"]
    for series in found.outputs:
        assert [one.key["place"] for one in series] == [f"room {n:02}" for n in reversed(range(2, 14))]
        assert {len(one.buckets) for one in series} == {4}


def test_over_time_revisions_are_counted_by_how_they_were_found(settings: Settings) -> None:
    told(settings).write(settings.layout)

    revisions = over_time(answers_of(settings), 5).revisions

    assert len(revisions) == 5
    assert [sum(one[name] for one in revisions) for name in ("answers", "revised", "repaired")] == [21, 2, 1]
    assert [one["from_us"] for one in revisions[1:]] == [one["to_us"] for one in revisions[:-1]]


def test_over_time_there_is_nothing_before_the_first_answer(tmp_path: Path) -> None:
    settings = declare(tmp_path, plain=PLAIN)
    empty = Aggregated(settings.of_kind(AggregateQuery)["plain"], settings.streams)

    before = over_time(answers_of(settings, "plain"), 5)
    empty.write(settings.layout)
    after = over_time(answers_of(settings, "plain"), 5)

    for found in (before, after):
        assert (found.outputs, found.groups, found.revisions) == ([], 0, [])


def test_the_next_tick_is_named_with_the_streams_that_it_waits_for(
    tmp_path: Path, settings: Settings
) -> None:
    told(settings).write(settings.layout)
    with_idle = declare(tmp_path / "other", busy=TEXT.replace("ALARM", "IDLE 1 MINUTE ALARM"))

    facts = facts_of(settings)
    known = facts_of(with_idle.model_copy(update={"home": settings.home}))["next_tick"]

    assert facts["next_tick"] == {
        "tick_us": us(105),
        "waits_for": ["replies"],
        "idle_from_us": None,
    }
    assert known == facts["next_tick"] | {"idle_from_us": us(165)}
    sentence = "2026-01-01 00:01:45 waits for rows of replies from then on"
    assert waiting_in_words(facts) == f"{sentence}; until then 2 raised alarms stay raised"
    assert waiting_in_words({**facts, "alarms": 0}) is None
    assert f"next tick: {sentence}; until then 2 raised alarms stay raised" in list(found_in_words(facts))


def test_before_a_batch_no_tick_is_waited_for(settings: Settings) -> None:
    assert facts_of(settings)["next_tick"] is None

"""Reports on quality: what a reader is shown of a stream, and that a day that is over keeps its report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from lakehouse.serving.quality.report import Asked
from lakehouse.serving.quality.sentences import REASONS, fresh_sentence
from lakehouse.serving.table_reader import connected
from lakehouse.spark.ddl import schema_of
from quality.history import SCHEMA
from tests.support.reported import HOSTILE, LEDGER, NOON, NOON_US, QUARANTINE, reported, verdict, write

DOCUMENT = Path(__file__).parents[3] / "docs" / "quality.md"
FIRST, SECOND, THIRD = date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    home = reported(tmp_path)
    with connected(home.tables) as connection:
        yield Asked(home, connection)


def test_a_stream_is_told_in_sentences(asked: Asked) -> None:
    report = asked.report("rooms", SECOND)

    assert report["complete"] == (
        "Of 15 records that came in so far, 11 were accepted, 3 rejected, and 1 repeated another: "
        "none is unaccounted for."
    )
    assert report["arrived"].startswith("Of 5 records that came in on this day, 4 were accepted")
    assert report["fresh"].startswith(
        "The newest row is of 2026-01-01 12:00:00 UTC, 23 hours older than the batch"
    )
    newest = asked.report("rooms", THIRD)
    assert newest["plausible"].startswith("1 of 2 of its own rules hold; broken: Rooms are warm")
    assert (report["state"], report["is_balanced"]) == ("fails", True)


def test_records_that_are_unaccounted_for_fail_a_stream(asked: Asked) -> None:
    home = asked.layout
    row = {"batch": 3, "received": 9, "requeued": 0, "accepted": 7, "quarantined": 0, "duplicates": 0}
    write(home.ledger("other"), LEDGER, [row | {"committed_at": NOON}])

    report = asked.report("other")

    assert report["complete"].endswith("2 are unaccounted for.")
    assert report["state"] == "fails"
    assert report["plausible"].startswith("No check has run yet")


def test_rules_that_do_not_hold_come_first_with_their_last_thirty_runs_and_the_worst_sources(
    asked: Asked,
) -> None:
    rules = asked.report("rooms")["rules"]

    assert [(rule["rule"], rule["state"]) for rule in rules] == [
        ("totals.raw_gap", "fails"),
        ("warnings.temp", "warns"),
        ("rules.new", "holds"),
        ("raw.without_origin", "holds"),
    ]
    failed, warned = rules[:2]
    assert failed["seen"] == "3 was observed (batch 2), expected at most 0"
    assert failed["since_us"] == NOON_US + 20 * 3_600_000_000
    assert list(warned["worst"].items()) == [(f"device {HOSTILE}", 2), ("device b", 1)]
    assert len(warned["runs"]) == 30
    assert [run["value"] for run in warned["runs"]][-2:] == [0.38, 0.39]


def test_a_rule_that_is_declared_no_longer_is_not_shown(asked: Asked) -> None:
    before, after = (asked.report("rooms", day)["rules"] for day in (FIRST, THIRD))

    assert "rules.old" in [rule["rule"] for rule in before]
    assert [rule["rule"] for rule in after if rule["rule"].startswith("rules.")] == ["rules.new"]


def test_a_day_that_is_over_keeps_its_report(asked: Asked) -> None:
    before = asked.report("rooms", FIRST)
    later = verdict("raw", "without_origin", NOON + timedelta(days=3), success=False)
    write(asked.layout.quality, schema_of(SCHEMA), [later])

    after = asked.report("rooms", FIRST)

    assert after["days"] == [date(2026, 1, 4), THIRD, SECOND, FIRST]
    assert before | {"days": after["days"]} == after
    assert before["arrived"] == ""
    assert before["state"] == "fails"


def test_rejected_records_are_counted_by_reason_and_only_their_form_is_shown(asked: Asked) -> None:
    first, second = (asked.report("rooms", day)["quarantine"] for day in (FIRST, SECOND))

    assert [(one["reason"], one["of_day"], one["records"]) for one in second] == [
        ("rule_temp", 1, 2),
        ("clock", 0, 1),
    ]
    assert second[0]["says"] == f"It breaks a rule of the stream: {HOSTILE}"
    assert first[0]["worst"] == {f"{HOSTILE}.csv": 1}
    (example,) = first[0]["examples"]
    assert (example["source_line"], example["form"]) == (7, '{"xxx": "xxx-9"}')


def test_the_file_with_most_rejected_records_comes_first_with_its_first_records(asked: Asked) -> None:
    one = {"batch": 1, "reason": "clock", "source_file": "b.csv", "detail": "3h ahead"}
    rows = [one | {"source_line": line, "record": f"line-{line}".encode()} for line in (9, 5, 7)]
    write(asked.layout.quarantine("rooms"), QUARANTINE, rows)

    (clock, *_) = asked.report("rooms", FIRST)["quarantine"]

    assert list(clock["worst"].items()) == [("b.csv", 3), (f"{HOSTILE}.csv", 1)]
    assert [(found["source_file"], found["source_line"]) for found in clock["examples"]] == [
        ("b.csv", 5),
        ("b.csv", 7),
    ]


def test_who_was_notified_is_said(asked: Asked) -> None:
    sentences = [
        replace(asked, address=address).report("rooms")["notified"]
        for address in (None, "https://key:secret@oncall.example/token")
    ]

    assert sentences == [
        "Nobody is notified: [alerts] declares no address.",
        "Nobody was notified yet: tidemark web posts to oncall.example while it runs.",
    ]


def test_queries_and_streams_that_were_checked_are_subjects_and_a_query_has_only_rules(asked: Asked) -> None:
    assert asked.subjects() == ["rooms", "query-pairs"]
    report = asked.report("query-pairs")
    assert "complete" not in report
    assert [rule["says"] for rule in report["rules"]] == ["repeats is well."]


def test_the_newest_report_is_of_now_and_one_of_a_day_of_its_end(asked: Asked) -> None:
    newest, first = (asked.report("rooms", day)["fresh"] for day in (None, FIRST))

    assert newest.endswith(" days before this report was made.")
    assert first.endswith(" hours before the day ended.")


def test_a_row_ahead_of_its_batch_is_no_older_one() -> None:
    assert "59 seconds ahead of the batch" in fresh_sentence(NOON_US + 59_000_000, NOON_US, NOON_US)


def test_every_reason_has_a_sentence() -> None:
    lines = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for line in lines for name in re.findall(r"`(\w+)`", line)}

    assert {"malformed", "clock", "unknown_schema"} <= named
    assert {
        name for name in named if not name.startswith(("column", "rule", "multi", "select", "expect"))
    } <= set(REASONS)

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Tidemark
from tests.queries.joined import TEXT, declare, run_by_hand

SECTIONS = {"plan", "buckets", "last_batches", "completeness", "to_repair", "last_repairs"}


def test_a_script_gets_every_section(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))

    found = json.loads(called("explain", "replies", "--json").stdout)

    assert SECTIONS - set(found) == set()
    assert (found["query"], found["state"], found["text"]) == ("replies", "current", TEXT)
    assert [bucket["held"] for bucket in found["buckets"]] == [130, 90]
    assert [repair["found"] for repair in found["last_repairs"]] == [150]


def test_people_get_the_plan_in_words(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))

    lines = called("explain", "replies").stdout.splitlines()

    assert lines[0] == "replies: answers to requests"
    assert lines[1].startswith("state: current; last batch ")
    assert "where:     r: `location` = 'hall'" in lines
    assert "joins:     event times at most 2s apart and r.device = s.src and r.temp < s.bytes - 0.5" in lines
    assert "buckets:   8, by hash of the keys" in lines
    assert (
        "target:    recall 0.95 over any 1m, aimed at 0.9875: margin 0.25 of the allowed loss is used"
        in lines
    )


def test_people_get_buffers_slack_misses_and_what_is_to_repair(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))

    lines = [" ".join(line.split()) for line in called("explain", "replies").stdout.splitlines()]

    assert "0 130 180 9,500 10ms 1.5s 1 min 2 s 2026-01-01 00:05:00 1,500 2,150 12 0 3 0" in lines
    assert "2026-01-01 00:01:10 2026-01-01 00:02:10 0.75 600 450 open" in lines
    assert "pairs: 2,850 online, 150 repaired; recall 0.95; mean wait of all 350ms" in lines
    assert "wait of repaired pairs: mean 7s, p99 7s, longest 7s" in lines
    assert "to repair: 2 logged rows of batch 2, 2026-01-01 00:02:00 to 2026-01-01 00:02:01" in lines
    assert "1 2026-01-02 00:00:00 1 15 150 2 2026-01-01 00:03:27" in lines


def test_a_query_that_never_ran_has_a_plan_and_a_page(called: Tidemark, tmp_path: Path) -> None:
    declare(tmp_path)

    ended = called("explain", "replies", "--html", "replies.html")

    assert (ended.returncode, ended.stdout.splitlines()[1]) == (0, "state: new")
    assert "buckets, as the last batch left them" not in ended.stdout
    assert "nothing taken in yet" in (tmp_path / "replies.html").read_text(encoding="utf-8")


def test_a_changed_query_is_told_with_both_meanings_and_the_way_out(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))
    declare(tmp_path, replies=TEXT.replace("[RANGE 2 SECONDS]", "[RANGE 3 SECONDS]"))

    text = called("explain", "replies").stdout

    assert "state: changed; its tables are of" in text
    assert (
        text.index("[RANGE 2 SECONDS]")
        < text.index("[RANGE 3 SECONDS]")
        < text.index("tidemark queries --forget")
    )
    assert "Equality" not in text


@pytest.mark.parametrize("as_json", [False, True])
def test_the_page_is_written_beside_what_is_printed(called: Tidemark, tmp_path: Path, as_json: bool) -> None:
    run_by_hand(declare(tmp_path))

    ended = called("explain", "replies", "--html", "replies.html", *(["--json"] if as_json else []))

    assert (tmp_path / "replies.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    if as_json:
        assert json.loads(ended.stdout)["html"] == "replies.html"
    else:
        assert ended.stdout.endswith("\nwrote replies.html\n")


def test_an_unknown_query_is_refused_with_what_was_meant(called: Tidemark, tmp_path: Path) -> None:
    declare(tmp_path, replies=TEXT, nearby=TEXT)

    ended = called("explain", "replys")

    told = "tidemark: no query 'replys'; expected one of nearby, replies (did you mean replies?)\n"
    assert (ended.returncode, ended.stderr) == (2, told)


def test_a_query_by_the_papers_policy_has_no_margin(called: Tidemark, tmp_path: Path) -> None:
    declare(tmp_path, replies=f"{TEXT} POLICY PAPER")

    lines = called("explain", "replies").stdout.splitlines()

    assert "target:    recall 0.95 over any 1m" in lines

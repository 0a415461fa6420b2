"""Pages of joins and aggregates that call predicates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.storage.query_meaning import read_definition
from tests.cli.conftest import Tidemark
from tests.queries.scanned import KINDS, declare, run_by_hand, stop

FIRST = {"pairs": "r: location = 'hall'", "multiway": "d: temp > 1", "aggregate": "a: temp > 1"}


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_operators_are_listed_by_side_with_the_kernel_last(
    called: Tidemark, tmp_path: Path, kind: str
) -> None:
    run_by_hand(declare(tmp_path, kind), kind)
    query, call, _, kernel = KINDS[kind]

    lines = squeezed(called("queries").stdout)

    alias = FIRST[kind][0]
    place = lines.index("operators, in the order that the next batch begins with")
    assert lines[place + 3 :] == [
        f"{query} {FIRST[kind]} 2 1 0.1 1 900,000 900,000 700us 500",
        f"{query} {alias}: {call} 1 2 0.5 100 5,000 4,000 30ms 1,000",
        f"{query} {kernel} - - 0.5 143 - 2,000 - -",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_are_numbered_as_written_and_it_is_told_why_they_stand_as_they_do(
    called: Tidemark, tmp_path: Path, kind: str
) -> None:
    run_by_hand(declare(tmp_path, kind), kind)
    _, call, _, kernel = KINDS[kind]

    lines = squeezed(called("explain", KINDS[kind][0]).stdout)

    side, condition = FIRST[kind].split(": ")
    assert f"where: {side}: 1. {call} ({call.partition('(')[0]}.py, row by row)" in lines
    assert f"where: {side}: 2. {condition} (compiled, whole columns)" in lines
    assert f"order: {FIRST[kind]} goes before {call}: it takes out 900,000 rows a second, that 5,000" in lines
    assert any(line.startswith(f"order: {kernel} runs behind all scans of its round;") for line in lines)
    assert f"{kernel} - - 0.5 143 - 2,000 - - 60 30" in lines
    start = lines.index("last scans")
    assert lines[start + 3].startswith(f"1 {side} 2026-01-02 00:01:00 1,000 50 1 2 1,000 200ms")
    assert lines[start + 4].startswith(f"2 {side} 2026-01-02 00:02:00 1,000 50 2 1 5,000 400ms")


def test_a_plan_before_the_first_batch_has_no_order(called: Tidemark, tmp_path: Path) -> None:
    declare(tmp_path, "multiway")

    text = called("explain", "passing").stdout

    assert "1. within(place)" in text and "order:" not in text and "last scans" not in text
    assert "operators" not in called("queries").stdout


def test_machines_get_the_same(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path, "aggregate"), "aggregate")

    listed = json.loads(called("queries", "--json").stdout)["queries"][0]
    told = json.loads(called("explain", "busy", "--json").stdout)

    assert [each["side"] for each in listed["operators"]] == ["a", "a", None]
    assert told["operators"] == listed["operators"] and len(told["why"]) == 3
    assert told["last_scans"][0]["sides"][0]["side"] == "a"


def test_a_page_tells_why_too(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path, "pairs"), "pairs")

    called("explain", "replies", "--html", "replies.html")

    assert "goes before inside(location)" in (tmp_path / "replies.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_query_is_told_with_what_to_do_and_can_be_forgotten(
    called: Tidemark, tmp_path: Path, kind: str
) -> None:
    settings = declare(tmp_path, kind)
    run_by_hand(settings, kind)
    stop(settings, kind)
    query, call, _, _ = KINDS[kind]

    listed = called("queries").stdout
    told = called("explain", query).stdout
    forgotten = called("queries", "--forget", query, "--yes")

    why = f"batch 3, at {call} (within.py:2): TypeError: no place; mend it, the next run goes on from there"
    assert f"{query} is stopped: {why}" in listed and f"state: stopped; {why}" in told
    assert forgotten.returncode == 0
    assert (
        not settings.layout.operators(query).exists()
        and read_definition(settings.layout.batch_manifests(query)) is None
    )

"""Commands about selections."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Tidemark
from tests.queries.chosen import declare, run_by_hand, stop


def test_people_get_the_plan_in_words_before_the_first_batch(called: Tidemark, tmp_path: Path) -> None:
    declare(tmp_path)

    lines = called("explain", "hot").stdout.splitlines()

    assert lines == [
        "hot: hot doors of the hall",
        "state: new",
        "stream:    doors d",
        "where:     1. in_hall(place) (in_hall.py, row by row)",
        "where:     2. temp > 40 (compiled, whole columns)",
        "where:     3. place <> 'x' (compiled, whole columns)",
        "shows:     place, temp",
        "deadline:  rows are out within 600ms of the start of the work on a batch",
    ]


def test_people_see_operators_with_cost_and_why_they_stand_as_they_do(
    called: Tidemark, tmp_path: Path
) -> None:
    run_by_hand(declare(tmp_path))

    listed = called("queries").stdout
    told = called("explain", "hot").stdout

    assert "operators of selections, in the order that the next batch begins with" in listed
    operators = [line.split() for line in listed.splitlines() if line.startswith("hot ") and "us" in line][
        -3:
    ]
    assert operators[0] == [
        "hot",
        "temp",
        ">",
        "40",
        "2",
        "1",
        "0.1",
        "1",
        "900,000",
        "900,000",
        "700us",
        "500",
    ]
    assert (
        "order:     temp > 40 goes before in_hall(place): it takes out 900,000 rows a second, that 5,000"
        in told
    )
    assert "2 1 3" in told and "400ms" in told


def test_machines_get_one_document_each(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))

    listed = json.loads(called("queries", "--json").stdout)
    told = json.loads(called("explain", "hot", "--json").stdout)

    assert [query["query"] for query in listed["queries"]] == ["hot", "new"]
    assert [each["now"] for each in listed["queries"][0]["operators"]] == [1, 2, 3]
    assert told["why"] and len(told["last_batches"]) == 2


def test_a_stopped_query_is_told_with_what_to_do(called: Tidemark, tmp_path: Path) -> None:
    settings = declare(tmp_path)
    run_by_hand(settings)
    stop(settings)

    listed = called("queries").stdout
    told = called("explain", "hot").stdout

    why = "batch 3, at in_hall(place) (in_hall.py:2): TypeError: no place; mend it, the next run goes on from there"
    assert f"hot is stopped: {why}" in listed
    assert f"state: stopped; {why}" in told


def test_a_page_is_refused(called: Tidemark, tmp_path: Path) -> None:
    declare(tmp_path)

    done = called("explain", "hot", "--html", str(tmp_path / "x.html"))

    assert done.returncode == 2 and "expected none for selections" in done.stderr

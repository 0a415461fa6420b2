"""Commands about a join of three streams."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Tidemark
from tests.queries.moved import TEXT, declare, run_by_hand


def test_people_get_the_plan_in_words(called: Tidemark, tmp_path: Path) -> None:
    declare(tmp_path)

    lines = called("explain", "passing").stdout.splitlines()

    assert lines[:2] == ["passing: who came in, was seen and was let out", "state: new"]
    assert "streams:   doors [10s] d join badges [1m] b join cameras [30s] c" in lines
    assert "where:     d: `temp` > 1" in lines
    assert "sites:     d at north, b at south, c at south" in lines
    assert "ways:      d to b 4, d to c 4, b to d 4, b to c 0, c to d 4, c to b 0" in lines
    assert any(
        line.startswith("slack:     rows up to 5s behind what all streams have passed") for line in lines
    )


def test_people_get_what_each_batch_moved_on_which_way(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))

    lines = [" ".join(line.split()) for line in called("explain", "passing").stdout.splitlines()]

    assert "d 120 - 140 3 1 2 107 30 153 73" in lines
    assert "1 c 80 0 0 0 60 20 d, b 20 60 90 20 50 70 300 260.5" in lines
    assert "2 b 10 1 0 0 10 0 - 0 0 0.5 0.5" in lines
    assert "results: 75 online, 25 repaired; 0.75 of them at once" in lines
    assert "to repair: 4 logged rows of batch 2, 2026-01-01 00:02:30 to 2026-01-01 00:02:33" in lines


def test_a_script_gets_the_same_and_queries_lists_it(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))

    found = json.loads(called("explain", "passing", "--json").stdout)
    listed = called("queries").stdout

    assert {"plan", "sides", "last_batches", "completeness", "to_repair", "last_repairs"} <= set(found)
    assert found["last_batches"][0]["sides"][2]["order"] == ["d", "b"]
    assert "passing" in listed and "d.place = b.place = c.place" in listed


def test_a_changed_query_is_told_with_the_way_out(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))
    declare(tmp_path, TEXT.replace("[10 SECONDS]", "[11 SECONDS]"))

    text = called("explain", "passing").stdout

    assert "state: changed; its tables are of" in text and "tidemark queries --forget passing" in text


def test_a_page_is_refused_with_a_reason(called: Tidemark, tmp_path: Path) -> None:
    declare(tmp_path)

    ended = called("explain", "passing", "--html", "page.html")

    assert ended.returncode == 2 and "expected none for joins of three streams or more" in ended.stderr

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from lakehouse.serving.sandbox.sandbox import distinct
from tests.cli.conftest import Tidemark

QUERY = "SELECT stream, 'a, \"b\"' AS quoted, NULL AS nothing FROM streams"


@pytest.mark.slow
def test_rows_are_a_table_json_or_csv(tidemark: Tidemark, published_home: Path) -> None:
    table = tidemark("--home", published_home, "sql", QUERY).stdout.split()
    objects = json.loads(tidemark("--home", published_home, "sql", QUERY, "--json").stdout)
    lines = list(csv.reader(tidemark("--home", published_home, "sql", QUERY, "--csv").stdout.splitlines()))

    assert [*table[:3], *table[-4:]] == ["stream", "quoted", "nothing", "telemetry", "a,", '"b"', "-"]
    assert objects == [{"stream": "telemetry", "quoted": 'a, "b"', "nothing": None}]
    assert lines == [["stream", "quoted", "nothing"], ["telemetry", 'a, "b"', ""]]


def test_a_macro_says_what_ask_says(called: Tidemark, published_home: Path) -> None:
    words = ("'telemetry', 'temp', TIMESTAMP '2026-01-01 00:00:30', TIMESTAMP '2026-01-01 00:10:00'",)
    rows = called(
        "--home", published_home, "sql", f"SELECT value, low, high FROM range_sum({words[0]})", "--json"
    )
    range_ = ("--agg", "sum", "--from", "2026-01-01T00:00:30", "--to", "2026-01-01T00:10")
    asked = json.loads(called("--home", published_home, "ask", "telemetry", "temp", *range_, "--json").stdout)

    (row,) = json.loads(rows.stdout)
    assert row == {name: asked[name] for name in ("value", "low", "high")}


def test_more_rows_than_the_limit_are_told(called: Tidemark, published_home: Path) -> None:
    ended = called("--home", published_home, "sql", "SELECT * FROM range(5)", "--limit", "2", "--json")

    assert len(json.loads(ended.stdout)) == 2
    assert "only the first 2 rows" in ended.stderr


@pytest.mark.parametrize(
    "query",
    ["DROP TABLE nodes", "SELECT * FROM read_text('/etc/passwd')", "SELEC 1", "SELECT * FROM nowhere"],
)
def test_what_is_not_a_harmless_select_fails_with_a_message(
    called: Tidemark, published_home: Path, query: str
) -> None:
    ended = called("--home", published_home, "sql", query)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("tidemark: ")
    assert "Traceback" not in ended.stderr


def test_one_form_of_output_is_chosen(called: Tidemark, published_home: Path) -> None:
    assert called("--home", published_home, "sql", QUERY, "--csv", "--json").returncode == 2


def test_names_that_come_again_are_numbered() -> None:
    assert distinct(["a", "a", "b", "a"]) == ["a", "a_2", "b", "a_3"]


@pytest.mark.parametrize(("memory", "code"), [("32", 1), ("600", 0)])
def test_a_statement_has_the_memory_that_it_is_given(
    called: Tidemark, published_home: Path, memory: str, code: int
) -> None:
    query = "SELECT count(DISTINCT i) AS n FROM range(1000000) AS t(i)"
    ended = called("--home", published_home, "sql", query, "--memory", memory)

    assert ended.returncode == code
    assert ("needs more memory than it may have" in ended.stderr) == bool(code)
    assert ("1000000" in ended.stdout) == (not code)

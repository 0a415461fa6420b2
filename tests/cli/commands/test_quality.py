"""``tidemark quality``: a table, a page and JSON of one report, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.cli.app import call
from tests.support.reported import reported


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "var"))
    (tmp_path / "var").mkdir()
    reported(tmp_path / "var")
    return tmp_path


def test_a_rule_that_fails_ends_the_command_with_1_and_a_query_that_holds_with_0(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(["quality"]) == 1
    printed = capsys.readouterr().out
    assert "raw_gap is well." in printed and "without_origin is well." not in printed
    assert call(["quality", "query-pairs"]) == 0


def test_a_stream_of_which_a_rule_only_warns_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["quality", "rooms", "--day", "2026-01-01"]) == 1
    assert call(["quality", "rooms", "--day", "2025-12-31"]) == 0


def test_one_stream_is_printed_as_a_whole(capsys: pytest.CaptureFixture[str]) -> None:
    call(["quality", "rooms"])

    printed = capsys.readouterr().out
    for words in (
        "Of 15 records",
        "Nobody is notified",
        "without_origin is well.",
        "device b: 1",
        "rejected records",
    ):
        assert words in printed


def test_the_page_and_json_hold_the_same_report(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["quality", "rooms", "--html", "q.html", "--json"]) == 1

    (report,) = json.loads(capsys.readouterr().out)
    assert report["html"] == "q.html"
    assert report["complete"] in (home / "q.html").read_text(encoding="utf-8")


def test_an_unknown_stream_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["quality", "roms"]) == 2
    assert "rooms" in capsys.readouterr().err

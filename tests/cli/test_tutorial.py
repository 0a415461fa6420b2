"""The tutorial, done by a reader in an empty folder: each block is written, run or compared as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import command_in
from tests.support.documented import DOCUMENTS, ROOT, deviation, shown_in

PAGE = ROOT / "docs" / "tutorial.md"


def blocks(language: str) -> list[str]:
    """Return the page's blocks of a language."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_reader_of_the_tutorial_sees_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [written] = blocks("python")
    declared, mended = blocks("toml")
    monkeypatch.chdir(tmp_path)
    exec(compile(written, PAGE.name, "exec"), {})
    (tmp_path / "tidemark.toml").write_text(declared)
    tidemark, wrong = command_in(tmp_path), []

    for shown in shown_in(PAGE):
        if shown.words[0] == "requeue":
            (tmp_path / "tidemark.toml").write_text(declared + mended)
        ended = tidemark(*shown.words)
        if how := deviation(shown, ended.returncode, ended.stdout, ended.stderr):
            wrong.append(f"{shown.line}: {how}")

    assert wrong == []
    assert "greenhouse" in (tmp_path / "chart.html").read_text(encoding="utf-8")


def test_the_tutorial_is_among_the_documents_with_tested_commands() -> None:
    assert PAGE in DOCUMENTS and len(shown_in(PAGE)) == 9

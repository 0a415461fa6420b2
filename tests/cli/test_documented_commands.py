"""Command lines and notebooks of the documents: each names what exists, and those about the tour's home run on it.

Those about real sets run where the tests of these sets make their homes, see HOMES in tests/support/documented.py.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakehouse.storage.layout import Home
from tests.cli.conftest import Tour, command_in
from tests.support.documented import (
    CHANGING,
    DOCUMENTS,
    ROOT,
    Shown,
    about,
    commands,
    deviation,
    deviations,
    shown_in,
)
from tests.web.conftest import served

COLLECTED = '[streams.host]\npreset = "host"\n[streams.sockets]\npreset = "host-connections"\n'


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_option_of_a_documented_command_line_exists(path: Path) -> None:
    wrong = []
    for shown in shown_in(path):
        words = shown.words
        if words[0].startswith("--"):
            continue
        command = commands()[words[0]]
        own = getattr(command, "commands", {}).get(words[1] if len(words) > 1 else "", command)
        known = {name for one in (command, own) for parameter in one.params for name in parameter.opts}
        wrong += [
            f"{shown.line}: {word}"
            for word in words
            if word.startswith("--") and word.split("=")[0] not in known
        ]

    assert wrong == []


def test_every_command_line_is_run_on_a_home_or_has_a_reason_not_to() -> None:
    shown = [each for path in DOCUMENTS for each in shown_in(path) if not each.line.startswith("--")]
    run = [
        each for home in ("tour", "real", "fires", "water", "collected", "tutorial") for each in about(home)
    ]

    assert [each.line for each in shown if each not in run and not each.not_run] == []
    assert len(run) > 20
    assert {each.document for each in run} >= {"README.md", "docs/asking.md", "docs/queries/selection.md"}


@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_command_line_about_the_home_of_the_tour_does_what_is_shown(
    tour: Tour, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = [each for each in about("tour") if each.words[0] not in (*CHANGING, "spark")]

    assert deviations(lines, tour.folder, monkeypatch, capfd) == ""
    assert len(lines) >= 10


@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_command_line_that_changes_a_home_does_what_is_shown(
    tour: Tour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = [each for each in about("tour") if each.words[0] in CHANGING]
    shutil.copytree(tour.folder, tmp_path, dirs_exist_ok=True, symlinks=True)

    assert deviations(lines, tmp_path, monkeypatch, capfd) == ""
    assert len(lines) >= 3


@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_statement_for_spark_runs_on_the_home_of_the_tour(tour: Tour) -> None:
    # The command ends the session of its process, which the tests share.
    lines = [each for each in about("tour") if each.words[0] == "spark"]
    ended = {each.line: command_in(tour.folder)(*each.words) for each in lines}

    assert {line: run.stderr for line, run in ended.items() if run.returncode} == {}
    assert lines


@pytest.mark.slow
def test_every_command_line_about_collected_readings_does_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tidemark.toml").write_text(COLLECTED)
    # What is collected is shown after the status that tells of it, and takes a second here.
    lines = [replace(each, line=each.line.replace("60s", "1s")) for each in reversed(about("collected"))]

    assert deviations(lines, tmp_path, monkeypatch, capfd) == ""
    assert len(lines) >= 2


@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_documented_question_over_http_is_answered_with_the_home_of_the_tour(tour: Tour) -> None:
    pages = [path.read_text(encoding="utf-8") for path in DOCUMENTS]
    urls = [url for page in pages for url in re.findall(r"^\$ curl .*'(http:[^']+)'", page, re.MULTILINE)]

    with served(Home(tour.folder / "var")) as address:
        found = [httpx.get(url.replace("http://127.0.0.1:8417", address)).json() for url in urls]

    assert found and all(answer["rows"][0]["value"] is not None for answer in found)


@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_python_of_asking_answers_from_the_home_of_the_tour(
    tour: Tour, monkeypatch: pytest.MonkeyPatch
) -> None:
    [block] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "asking.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tour.folder)
    found: dict[str, Any] = {}

    exec(compile(block, "docs/asking.md", "exec"), found)

    assert found["answer"].rows > 0


def test_a_line_that_fails_or_prints_other_columns_than_shown_deviates() -> None:
    shown = Shown(
        "docs/asking.md", "ask telemetry", ("value  [low, high]  ...  grouping", "-----  ---  ---  ---")
    )
    refused = Shown("docs/asking.md", "sql 'SELECT'", ("tidemark: read_csv() is not allowed",))

    assert deviation(shown, 0, "    value  [low, high]   rows  grouping\n", "") is None
    assert "no such stream" in str(deviation(shown, 2, "", "no such stream"))
    assert "does not print" in str(deviation(shown, 0, "value  [low, high]\n", ""))
    assert deviation(refused, 1, "", "tidemark: read_csv() is not allowed here") is None
    assert deviation(refused, 0, "1", "") is not None


@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.ipynb")), ids=lambda path: path.name)
def test_every_notebook_runs_on_the_home_of_the_tour(tour: Tour, path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    found: dict[str, object] = {}

    for number, cell in enumerate(cells):
        there = cell.replace('Path("var")', f'Path("{tour.folder / "var"}")')
        exec(compile(there, f"cell {number}", "exec"), found)

    assert len(found["frame"]) == 12 * 48  # type: ignore[arg-type]

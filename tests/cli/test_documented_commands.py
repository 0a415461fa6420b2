"""Command lines and notebooks of the documents: each names what exists, and those about the tour's home run on it."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from lakehouse.cli.app import app, call
from tests.cli.conftest import Tour

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINE = re.compile(r"^(?: {4}|\$ |\$ \.venv/bin/|\.venv/bin/)?tidemark ((?:[^\s#]).*)$", re.MULTILINE)
# README's lines are about the home of `make demo`; these are not run on it.
NOT_RUN = {
    "run": "the home is what it made",
    **dict.fromkeys(("serve", "web", "airflow", "bridge"), "runs until it is ended"),
    **dict.fromkeys(("retract", "requeue", "rebuild"), "changes the home, which tests share"),
}
# The other documents show homes of data sets that this repository does not hold: their lines are parsed alone.


def _lines(path: Path) -> list[str]:
    """Return the command lines of a document: each begins with a command, and is no sentence about one."""
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found = [line for block in blocks for line in LINE.findall(block)]
    return [line for line in found if line.split()[0] in _commands() or line.startswith("--")]


def _commands() -> dict[str, Any]:
    command: Any = get_command(app)
    found: dict[str, Any] = command.commands
    return found


def _words(line: str) -> list[str]:
    """Return the words of a command line, without what is said of it behind three spaces."""
    return shlex.split(re.split(r"\s{3,}|\s+#\s", line)[0])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_option_of_a_documented_command_line_exists(path: Path) -> None:
    wrong = []
    for line in _lines(path):
        words = _words(line)
        if words[0].startswith("--"):
            continue
        command = _commands()[words[0]]
        own = getattr(command, "commands", {}).get(words[1] if len(words) > 1 else "", command)
        known = {name for one in (command, own) for parameter in one.params for name in parameter.opts}
        wrong += [
            f"{line}: {word}" for word in words if word.startswith("--") and word.split("=")[0] not in known
        ]

    assert wrong == []


@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_command_line_of_the_readme_runs_on_the_home_of_the_tour(
    tour: Tour, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tour.folder)
    for name in [name for name in os.environ if name.startswith("TIDEMARK_")]:
        monkeypatch.delenv(name)
    lines = [line for line in _lines(ROOT / "README.md") if _words(line)[0] not in NOT_RUN]

    ended = {line: call(_words(line)) for line in lines}

    assert len(lines) >= 5
    assert {line: code for line, code in ended.items() if code} == {}, capfd.readouterr().err


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

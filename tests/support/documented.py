"""Command lines as README and the documents show them: the home that each is about, and a run of it there."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from lakehouse.cli.app import app, call

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A block in a fence, or indented.
BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```|((?:^ {4}[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^(?: {4}|\$ |\$ \.venv/bin/|\.venv/bin/)?tidemark ((?:[^\s#]).*)$")
# README lists each command with its purpose, two spaces or more behind it; tests/test_documents.py checks that list.
LISTED = re.compile(r"^ {4}tidemark [a-z-]+ {2,}(?!#)")

# The home that a document is about, where it is not that of `make demo`; tests of these sets make the homes.
HOMES = {
    "docs/quality.md": "real",
    "docs/queries/selection.md": "real",
    "docs/queries/pairs.md": "real",
    "docs/queries/multiway.md": "real",
    "docs/queries/aggregate.md": "fires",
    "docs/operations.md": "collected",
    "docs/tutorial.md": "tutorial",
}
# The same of single streams in the other documents.
STREAMS = {"water": "water", "'rooms'": "real"}
NOT_RUN = {
    "add data.csv": "declares the reader's file; tests/cli/test_second_session.py does",
    "plot data": "draws the reader's file; tests/cli/test_second_session.py does",
    "run": "the home is what it made",
    "serve": "runs until it is ended; tests/end_to_end/test_serve.py runs it",
    "web": "runs until it is ended; tests/web asks it",
    "airflow": "runs until it is ended; tests/infra/test_airflow_standalone.py runs it",
    "bridge": "runs until it is ended, with a broker; tests/collect runs it",
    "doctor": "is about a database or an object store; tests/test_doctor.py runs it",
    "spark --connect": "runs until it is ended; tests/cli/commands/test_spark.py runs it",
    "spark report.py": "the reader has the file; tests/cli/commands/test_spark.py runs one",
    "spark": "opens a shell; tests/cli/commands/test_spark.py opens it",
}
# The commands whose tables are compared with what is shown: of homes that hold the documented set with their figures.
TABLES = ("ask", "sql", "queries", "explain", "status", "collect", "quarantine")
FIGURES = ("ask", "sql", "status", "quarantine")
WHOLE = ("real", "water", "tutorial")
# Tests share a home: what changes it has a copy of its own.
CHANGING = ("retract", "requeue", "rebuild", "accept-loss", "token")


@dataclass(frozen=True)
class Shown:
    """A command line of a document, with what the document shows of its output."""

    document: str
    line: str
    output: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The words of the line, without a comment behind it."""
        return shlex.split(re.split(r"\s{3,}|\s+#\s", self.line)[0])

    @property
    def home(self) -> str:
        """The home that it is about."""
        return next(
            (home for name, home in STREAMS.items() if name in re.split(r"[ (,]", self.line)),
            HOMES.get(self.document, "tour"),
        )

    @property
    def not_run(self) -> str | None:
        """The reason why tests do not run it, if they do not."""
        words = " ".join(word for word in self.words if word != "--")
        (first, *_), exact = words.split(), NOT_RUN.get(" ".join(words.split()[:2]))
        return exact or (NOT_RUN.get(first) if first != "spark" or words == "spark" else None)


@cache
def commands() -> dict[str, Any]:
    """Return the commands that exist."""
    command: Any = get_command(app)
    found: dict[str, Any] = command.commands
    return found


def shown_in(path: Path) -> list[Shown]:
    """Return the command lines of a document: each begins with a command, and is no sentence about one."""
    found: list[Shown] = []
    for fenced, indented in BLOCK.findall(path.read_text(encoding="utf-8")):
        found += _of_block((fenced or indented).splitlines(), str(path.relative_to(ROOT)))
    return [each for each in found if each.line.split()[0] in commands() or each.line.startswith("--")]


def _of_block(lines: list[str], document: str) -> Iterable[Shown]:
    starts = [number for number, line in enumerate(lines) if LINE.match(line) and not LISTED.match(line)]
    for start, end in pairwise([*starts, len(lines)]):
        matched = LINE.match(lines[start])
        assert matched
        yield Shown(document, matched[1], tuple(line for line in lines[start + 1 : end] if line.strip()))


def about(home: str) -> list[Shown]:
    """Return the command lines about a home that are run on it."""
    shown = [each for path in DOCUMENTS for each in shown_in(path)]
    return [
        each for each in shown if each.home == home and not each.line.startswith("--") and not each.not_run
    ]


def deviations(
    shown: Iterable[Shown], folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> str:
    """Run command lines in a folder, in this process, and report those that do not give what is shown."""
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("TIDEMARK_")]:
        monkeypatch.delenv(name)
    found = []
    for each in shown:
        capfd.readouterr()
        code = call(each.words)
        output = capfd.readouterr()
        if wrong := deviation(each, code, output.out, output.err):
            found.append(f"{each.document}: tidemark {each.line}\n{wrong}")
    return "\n".join(found)


def deviation(shown: Shown, code: int, printed: str, errors: str) -> str | None:
    """Return how a run deviates from what the document shows: its end, its error, or lines it does not print."""
    refusals = [line for line in shown.output if line.startswith("tidemark: ")]
    if bool(code) != bool(refusals):
        return f"ended with {code}: {errors or printed}"
    if missing := [line for line in refusals if line not in errors]:
        return f"the error is {errors!r}, not {missing}"
    lines = _same_everywhere(shown) if shown.words[0] in TABLES else ()
    missing = [line for line in lines if not _is_printed(line, printed)]
    return f"it does not print {missing}, but\n{printed}" if missing else None


def _same_everywhere(shown: Shown) -> list[str]:
    """Return the shown lines that must be printed as they are: names of columns, and the figures of a whole set."""
    headings = [above for above, rule in pairwise(shown.output) if re.fullmatch(r"-[- .]*-", rule)]
    is_whole = shown.home in WHOLE and shown.words[0] in FIGURES
    return [line for line in shown.output if re.search(r"\w", line)] if is_whole else headings


def _is_printed(shown: str, printed: str) -> bool:
    """Whether a line is printed, however wide; documents leave columns out."""
    parts = [re.escape(cell) for cell in re.split(r"\s{2,}|\.\.\.", shown) if cell.strip()]
    pattern = re.compile(r"\s(?:.*\s)?".join(parts))
    return any(pattern.search(line) for line in printed.splitlines())

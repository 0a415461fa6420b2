"""README's second session, done with the tutorial's file, in an empty folder: each line prints what stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import command_in
from tests.cli.test_tutorial import PAGE, blocks
from tests.support.documented import ROOT, shown_in

LINES = ("add data.csv", "run", "plot data")


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_reader_of_the_second_session_sees_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [written] = blocks("python")
    exec(compile(written, PAGE.name, "exec"), {})
    (tmp_path / "landing" / "may.csv").rename(tmp_path / "data.csv")
    page = shown_in(ROOT / "README.md")
    first = next(number for number, each in enumerate(page) if each.line.startswith(LINES[0]))
    session, missing = page[first : first + len(LINES)], []
    assert all(each.line.startswith(line) for each, line in zip(session, LINES, strict=True))

    for each in session:
        ended = command_in(tmp_path)(*each.words)
        assert ended.returncode == 0, ended.stderr
        printed = [" ".join(line.split()) for line in ended.stdout.splitlines()]
        missing += [line for line in each.output if " ".join(line.split()) not in printed]

    assert missing == []

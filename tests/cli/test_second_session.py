"""README's second session, done with the file that it shows, in an empty folder: each line prints what stands there."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import sin, tau
from pathlib import Path

import pytest

from tests.cli.conftest import command_in
from tests.support.documented import ROOT, shown_in

LINES = ("add data.csv", "run", "plot data")


def written(folder: Path) -> None:
    """Write three days of two sensors, with a text where a number belongs, and a line that was sent twice."""
    lines = ["time,sensor,temperature"]
    for step in range(3 * 144):
        time = datetime(2026, 5, 4) + timedelta(minutes=10 * step)
        for sensor, mean in (("north", 18), ("south", 22)):
            lines.append(f"{time},{sensor},{mean + 6 * sin(tau * (step - 48) / 144):.1f}")
    lines[200] = "2026-05-04 16:30:00,south,n/a"
    lines.append(lines[300])
    (folder / "data.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_reader_of_the_second_session_sees_what_it_shows(tmp_path: Path) -> None:
    written(tmp_path)
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

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults import report


def test_parts_that_end_at_one_time_are_all_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    monkeypatch.setattr(report, "README", tmp_path / "README.md")
    (tmp_path / "README.md").write_text("before\n" + report._BEGIN + "\n" + report._END + "\nafter\n")
    parts = {
        name: {"tried": 1, "broken": [], "on": "2026-01-01"}
        for name in ("clocks", "disk", "writers", "bounds")
    }

    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(lambda name: report.write({name: parts[name]}), parts))

    assert json.loads((tmp_path / "report.json").read_text()) == parts
    lines = (tmp_path / "README.md").read_text().splitlines()
    assert (lines[0], lines[-1]) == (
        "before",
        "after",
    ) and "| random ranges compared with all rows | 1 ranges; 0 truths outside the interval |" in lines

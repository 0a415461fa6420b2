from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.queries.runtime.recall.reported_misses import ReportedMisses

STARTS = st.sets(st.integers(0, 60)).map(lambda places: np.array(sorted(places), np.int64) * 10)


@given(STARTS, STARTS, STARTS)
def test_what_was_reported_is_known_for_as_long_as_it_is_reported_again(
    first: np.ndarray, second: np.ndarray, asked: np.ndarray
) -> None:
    nothing = ReportedMisses.read(Path("/nowhere"))
    one = nothing.with_more(first, 10, "monday")
    two = one.with_more(second, 10, "tuesday")

    assert not nothing.contain(asked).any()
    assert one.contain(asked).tolist() == np.isin(asked, first).tolist()
    assert two.contain(asked).tolist() == np.isin(asked, second).tolist()
    assert ("monday" in two.at) == bool(np.isin(second, first).any())


def test_a_report_is_read_as_it_was_written_and_is_as_long_as_it_has_stretches(tmp_path: Path) -> None:
    starts = np.concatenate([np.arange(1000), np.arange(2000, 3000)]) * 60
    report = ReportedMisses.read(tmp_path / "none").with_more(starts, 60, "monday")

    report.write(tmp_path / "misses.json")

    assert (tmp_path / "misses.json").read_text() == '[[0, 59940, "monday"], [120000, 179940, "monday"]]'
    again = ReportedMisses.read(tmp_path / "misses.json")
    assert again.contain(starts).all() and again.at == report.at
    (tmp_path / "misses.json").write_text("[[1")
    assert not ReportedMisses.read(tmp_path / "misses.json").contain(starts).any()

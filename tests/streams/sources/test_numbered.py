from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.streams.sources.numbered import lines_in

# Rows as they are written: of which file, from which line; a file's rows are together, and may go on in the next file.
ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40)), max_size=40)


@settings(deadline=None)
@given(parts=st.lists(ROWS, max_size=3), far=st.sampled_from((0, 2**62)))
def test_lines_that_no_written_row_comes_from_are_left(parts: list[list[tuple[str, int]]], far: int) -> None:
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.parquet" for number in range(len(parts))]
        for path, rows in zip(paths, parts, strict=True):
            files = pa.array([file for file, _ in rows], pa.string())
            numbers = pa.array([far + number for _, number in rows], pa.int64())
            pq.write_table(pa.table({"source_file": files, "source_line": numbers}), path)
        found = lines_in(paths)

    # Offsets of a partition that had many before cost no more than lines.
    every = far + np.arange(0, 60)
    expected: dict[str, set[int]] = {}
    for file, number in (row for rows in parts for row in rows):
        expected.setdefault(file, set()).add(far + number)
    assert found.keys() == expected.keys()
    for file, lines in found.items():
        left = every[np.array(lines.lack(pa.array(every)))]
        assert set(left.tolist()) == set(every.tolist()) - expected[file]

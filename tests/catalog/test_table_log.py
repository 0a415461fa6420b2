from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.catalog.table_log import Commits, read_columns
from tests.serving.streams import write_delta

AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


@pytest.mark.parametrize("as_spark_does", [False, True], ids=["stated", "int96"])
def test_moments_are_in_utc_however_they_are_stored(tmp_path: Path, as_spark_does: bool) -> None:
    table = pa.table({"at": pa.array([AT, None], pa.timestamp("us", tz="UTC"))})
    write_delta(table, tmp_path)
    pq.write_table(table, tmp_path / "part-0.parquet", use_deprecated_int96_timestamps=as_spark_does)

    assert read_columns(tmp_path, ("at",)) == [(AT,), (None,)]


def test_reading_columns_loads_no_pandas(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2], "at": pa.array([AT, AT], pa.timestamp("us", tz="UTC"))})
    write_delta(table, tmp_path)
    program = (
        "import sys; from pathlib import Path; from lakehouse.catalog.table_log import read_columns;"
        "print(len(read_columns(Path(sys.argv[1]), ('n', 'at'))), 'pandas' in sys.modules)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True
    )

    assert ended.stdout == "2 False\n"


def _committed(table: Path, *versions: int) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for version in versions:
        (log / f"{version:020d}.json").write_text("{}\n")


def test_commits_are_the_same_until_a_table_changes(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    commits = Commits(one, other)

    assert commits() == commits() == ((-1, 0), (-1, 0))
    _committed(one, 0, 1, 2)
    first = commits()
    assert [version for version, _ in first] == [2, -1] and commits() == first
    _committed(one, 3, 4)
    _committed(other, 0)
    assert [version for version, _ in commits()] == [4, 0]


def test_a_table_made_anew_is_a_change_although_its_version_is_lower(tmp_path: Path) -> None:
    table = tmp_path / "table"
    _committed(table, 0, 1, 2)
    commits = Commits(table)
    before = commits()
    shutil.rmtree(table)
    _committed(table, 0)

    assert [version for version, _ in commits()] == [0]
    shutil.rmtree(table)
    _committed(table, 0, 1, 2)
    assert commits() != before

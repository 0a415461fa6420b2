from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.catalog.table_log import read_columns
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

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from lakehouse.serving.sandbox.locked import connect_locked
from lakehouse.storage.damaged import DamagedFile
from tests.serving.conftest import Lakehouse


def test_a_second_connection_shares_the_file(lakehouse: Lakehouse) -> None:
    with connect_locked(lakehouse.reader.hold.path) as second:
        assert second.execute("SELECT version FROM publication").fetchall() == [(1,)]


@pytest.mark.parametrize("setting", ["enable_external_access = true", "memory_limit = '8GB'", "threads = 8"])
def test_nothing_can_be_unlocked(lakehouse: Lakehouse, setting: str) -> None:
    with pytest.raises(duckdb.Error, match=r"locked|Cannot"):
        lakehouse.reader.connection.execute(f"SET {setting}")


def test_python_variables_are_no_tables(lakehouse: Lakehouse) -> None:
    hidden = duckdb.execute("SELECT 42 AS secret")
    assert hidden is not None

    with pytest.raises(duckdb.CatalogException):
        lakehouse.reader.connection.execute("SELECT * FROM hidden")


@pytest.mark.parametrize("left", [0, 5_000])
def test_a_damaged_version_is_named_with_the_way_to_a_whole_one(tmp_path: Path, left: int) -> None:
    path = tmp_path / "00000001.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE TABLE streams AS FROM range(100_000)")
    path.write_bytes(path.read_bytes()[:left])

    with pytest.raises(
        DamagedFile, match=rf"{path} is damaged .*: remove {tmp_path}/current, and `tidemark run`"
    ):
        connect_locked(path)

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta.tables import DeltaTable

from lakehouse.engine.parts import commit_entries, sink_of
from lakehouse.spark.tables import create
from lakehouse.storage.tables import table_maintenance as maintenance
from lakehouse.storage.tables.table_commits import append, create_table
from lakehouse.storage.tables.table_log import commits_of, read_log, read_rows
from lakehouse.storage.tables.table_maintenance import kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
APPENDS = 17


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of seventeen small files, whose log has a checkpoint."""
    path = tmp_path_factory.mktemp("tables") / "small"
    for number in range(APPENDS):
        spark.range(number, number + 1).coalesce(1).write.format("delta").mode("append").save(str(path))
    return path


def versions(spark: SparkSession, table: Path, version: int) -> list[int]:
    frame = spark.read.format("delta").option("versionAsOf", version).load(str(table))
    return sorted(row.id for row in frame.collect())


def _removed(table: Path) -> int:
    actions = (json.loads(line) for commit in commits_of(table) for line in commit.read_text().splitlines())
    return sum("remove" in action for action in actions)


def test_tables_stay_small_and_no_reader_of_the_last_week_is_broken(spark: SparkSession, table: Path) -> None:
    before = read_log(table)
    detail = DeltaTable.forPath(spark, str(table)).detail().first()
    assert before is not None and detail is not None
    assert (len(before.files), before.bytes, before.rows) == (detail.numFiles, detail.sizeInBytes, APPENDS)
    assert sorted(row["id"] for row in read_rows(table)) == list(range(APPENDS))
    abandoned = table / "part-of-a-write-that-died.snappy.parquet"
    abandoned.write_bytes(b"")
    for path in table.glob("*.parquet"):
        os.utime(path, (time.time() - 8 * 86_400,) * 2)

    figures = maintenance.compact_and_vacuum(table)

    assert (figures["files_merged"], figures["files"], figures["files_deleted"]) == (APPENDS, 1, 1)
    assert not abandoned.exists()
    after = read_log(table)
    assert after is not None and {name: after.properties[name] for name in kept()} == kept()
    assert _removed(table) == APPENDS and after.rows == APPENDS
    assert (
        versions(spark, table, before.version)
        == versions(spark, table, after.version)
        == list(range(APPENDS))
    )
    again = maintenance.compact_and_vacuum(table)
    assert (again["files_merged"], again["files_deleted"]) == (0, 0)
    assert read_log(table) == after


def test_entries_of_the_log_that_no_version_in_reach_needs_are_gone_to_the_minute(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, log = tmp_path / "table", tmp_path / "table" / "_delta_log"
    spark.range(0).write.format("delta").save(str(path))
    maintenance.clear(path, 600_000_000)
    for number in range(14):
        spark.range(number, number + 1).coalesce(1).write.format("delta").mode("append").save(str(path))
    # Written a second apart, the twelfth commit eleven minutes ago and the one after it just now.
    for file in (each for each in log.iterdir() if each.name[:20].isdigit() and int(each.name[:20]) <= 12):
        os.utime(file, (time.time() - 672 + int(file.name[:20]),) * 2)

    maintenance.clear(path, 600_000_000)

    # From the last checkpoint that is as old on: each version in reach can be made of the entries that are left.
    assert [int(commit.stem) for commit in commits_of(path)] == [10, 11, 12, 13, 14, 15]
    assert versions(spark, path, 13) == list(range(12))
    assert spark.read.format("delta").load(str(path)).count() == 14


def test_rows_are_appended_while_files_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    """What a stream's ingest relies on, whose appends read nothing of the table (``test_ingest.py``)."""
    path = str(tmp_path / "table")
    spark.range(20 * 50_000).repartition(20).write.format("delta").save(path)
    appended = 0
    with ThreadPoolExecutor(1) as pool:
        merge = pool.submit(maintenance.merge_small_files, tmp_path / "table")
        while not merge.done() or not appended:
            row = pa.table({"id": [-1 - appended]})
            entries = sink_of(tmp_path / "table").write(row)
            files = commit_entries(tmp_path / "table", entries, ("test", appended))
            assert files is not None and [pq.read_table(file)["id"].to_pylist() for file in files] == [
                [-1 - appended]
            ]
            appended += 1

    assert merge.result() == 20
    ids = spark.read.format("delta").load(path).agg({"id": "min", "*": "count"}).first()
    assert ids is not None and sorted(ids) == [-appended, 20 * 50_000 + appended]


def test_a_folder_without_a_table_has_no_log(tmp_path: Path) -> None:
    assert read_log(tmp_path) is None
    assert read_rows(tmp_path) == []


def test_after_the_history_that_is_asked_for_files_that_no_version_uses_are_gone(
    spark: SparkSession, table: Path
) -> None:
    """The history is the table's own property: an argument to Delta's vacuum would be rounded to whole hours."""
    spark.read.format("delta").load(str(table)).coalesce(1).write.format("delta").mode("overwrite").save(
        str(table)
    )
    time.sleep(2)

    figures = maintenance.compact_and_vacuum(table, history_us=1_000_000)

    assert figures["files_deleted"] >= 1
    assert figures["files"] == len(list(table.glob("*.parquet"))) == 1
    assert spark.read.format("delta").load(str(table)).count() == APPENDS


SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def test_a_log_of_many_commits_within_the_history_ends_too_and_what_a_death_left_in_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, log = tmp_path / "table", tmp_path / "table" / "_delta_log"
    create_table(path, SCHEMA, properties=kept())
    for number in range(44):
        append(path, [{"id": number}])
    # As deltalake's writer leaves it when it is killed.
    (log / f"{7:020d}.json#1").touch()
    monkeypatch.setattr(maintenance, "MOST_COMMITS", 20)

    assert maintenance.compact_and_vacuum(path)["log_entries"] <= 20 + 10 + 1

    left = [int(commit.stem) for commit in commits_of(path)]
    assert left == list(range(left[0], 46)) and (log / f"{left[0]:020d}.checkpoint.parquet").exists()
    assert not list(log.glob("*#*"))
    append(path, [{"id": 44}])
    assert sorted(row["id"] for row in read_rows(path)) == list(range(45))


def test_a_log_can_be_cut_from_the_first_batch_on_before_any_maintenance(tmp_path: Path) -> None:
    create(tmp_path / "ledger", "ledger")
    for batch in range(10):
        append(tmp_path / "ledger", [{"batch": batch}])

    [checkpoint] = (tmp_path / "ledger" / "_delta_log").glob("*.checkpoint.parquet")
    assert int(checkpoint.name[:20]) == 9

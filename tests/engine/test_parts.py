"""Parts that tasks write: invisible until they are committed, once, whatever ran twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse.engine import Engine, Item, engine_of
from lakehouse.engine.parts import ENTRIES, TableSink, commit_entries, sink_of
from lakehouse.spark.tables import is_appended
from lakehouse.storage.tables.table_commits import create_table
from lakehouse.storage.tables.table_log import bounds, read_log, read_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table_of(folder: Path, partition: tuple[str, ...] = ()) -> Path:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("n", "long"), ("name", "string"))
    ]
    create_table(folder / "numbers", json.dumps({"type": "struct", "fields": fields}), partition=partition)
    return folder / "numbers"


def written(item: Item, sink: TableSink) -> Iterator[pa.Table]:
    """Write as many rows as the item says."""
    yield sink.write(pa.table({"n": pa.array(range(item["n"]), pa.int64())}))


def entries_of(engine: Engine, table: Path) -> pa.Table:
    items = pa.table({"n": [3, 0, 5]})
    return engine.map(items, partial(written, sink=sink_of(table)), ENTRIES, "write numbers")


@pytest.mark.spark
def test_tasks_write_and_the_driver_commits(tmp_path: Path, on_spark: SparkSession) -> None:
    table = table_of(tmp_path)

    entries = entries_of(engine_of(on_spark), table)

    assert read_rows(table) == []
    assert entries["rows"].to_pylist() == [3, 5]
    paths = commit_entries(table, entries, ("numbers", 1))
    assert paths and sorted(path.stat().st_size for path in paths) == sorted(entries["size"].to_pylist())
    assert sorted(row["n"] for row in read_rows(table)) == sorted([*range(3), *range(5)])
    assert {row["name"] for row in read_rows(table)} == {None}
    assert bounds(table, ["n"]) == [(0, 4)]


def test_a_task_that_runs_twice_leaves_an_orphan_and_one_commit(
    tmp_path: Path, session: SparkSession
) -> None:
    table, engine = table_of(tmp_path), engine_of(session)

    lost, entries = entries_of(engine, table), entries_of(engine, table)
    commit_entries(table, entries, ("numbers", 1))

    assert commit_entries(table, lost, ("numbers", 1)) is None
    assert is_appended(table, "numbers", 1) and not is_appended(table, "numbers", 2)
    facts = read_log(table)
    assert facts and facts.rows == 8
    assert {path.name for path in facts.files} == {Path(path).name for path in entries["path"].to_pylist()}
    assert len(list(table.glob("*.parquet"))) == 4


def test_a_table_gains_the_columns_of_its_parts(tmp_path: Path) -> None:
    table = table_of(tmp_path)

    sink = sink_of(table, pa.schema([pa.field("n", pa.int64()), pa.field("more", pa.float64())]))
    commit_entries(table, sink.write(iter([pa.table({"n": [1], "more": [0.5]})])))

    assert read_rows(table) == [{"n": 1, "name": None, "more": 0.5}]


def test_rows_of_a_partitioned_table_go_to_a_part_for_each_value(tmp_path: Path) -> None:
    table = table_of(tmp_path, ("name",))
    rows = pa.table({"n": [1, 2, 3, 4], "name": ["a b", None, "a b", "c"]})

    commit_entries(table, sink_of(table).write(rows))

    found = DeltaTable(str(table)).to_pyarrow_table().sort_by("n").to_pydict()
    assert found == {"n": [1, 2, 3, 4], "name": ["a b", None, "a b", "c"]}

"""Commits by ``table_commits``, beside those that Delta's own writer makes of the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from delta.tables import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.engine.local import LocalEngine
from lakehouse.engine.parts import commit_entries, sink_of
from lakehouse.engine.rewriting import remove_rows
from lakehouse.spark import tables
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables import table_commits, table_maintenance
from tests.support import killing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
COLUMNS = """
    part INT, n BIGINT COMMENT 'a number, or none', small SMALLINT, name STRING, ok BOOLEAN, ratio DOUBLE, day DATE,
    price DECIMAL(12,3), at TIMESTAMP, bytes BINARY, counts MAP<STRING, BIGINT>, list ARRAY<BIGINT>
"""
AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


def _row(number: int, **values: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "part": number % 2,
        "n": None if number % 5 == 0 else 2**60 + number,
        "small": -number,
        "name": "x" * (number * 9 % 64),
        "ok": number % 3 == 0,
        "ratio": float("nan") if number % 4 == 0 else number / 7,
        "day": date(1969, 12, 20 + number % 10),
        "price": Decimal(number) / 8,
        "at": AT,
        "bytes": bytes([number % 256]),
        "counts": {"a": number},
        "list": [number, None],
    }
    return row | values


BATCHES = [
    [_row(number) for number in range(7)],
    [_row(7, n=None, name=None)],
    [],
    [_row(number) for number in range(8, 108)],
]


@pytest.fixture(scope="module")
def twins(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two tables of the same batches: one committed by this module, one by Delta's own writer."""
    ours, theirs = (tmp_path_factory.mktemp("twins") / name for name in ("ours", "theirs"))
    table_commits.create_table(ours, _schema(COLUMNS).json(), "of batches", partition=["part"])
    spark.sql(f"CREATE TABLE delta.`{theirs}` ({COLUMNS}) USING delta PARTITIONED BY (part)")
    for number, batch in enumerate(BATCHES):
        rows = spark.createDataFrame(batch, _schema(COLUMNS)).repartition(2, "n")
        _append(rows, ours, "twin", number)
        once = {"txnAppId": "tidemark-twin", "txnVersion": str(number)}
        rows.write.format("delta").mode("append").options(**once).save(str(theirs))
    return ours, theirs


def _append(rows: DataFrame, table: Path, writer: str, number: int) -> list[Location] | None:
    """Append rows as tasks do."""
    found = rows.toArrow()
    return commit_entries(table, sink_of(table, found.schema).write(found), (writer, number))


def _schema(columns: str) -> StructType:
    schema = StructType.fromDDL(columns)
    assert isinstance(schema, StructType)
    return schema


def _content(frame: DataFrame) -> list[str]:
    return sorted(repr(row) for row in frame.collect())


def test_every_version_has_the_rows_that_delta_itself_has(
    spark: SparkSession, twins: tuple[Path, Path]
) -> None:
    for version in range(len(BATCHES) + 1):
        ours, theirs = (_content(tables.read(spark, table, version)) for table in twins)
        assert ours == theirs and len(ours) == sum(map(len, BATCHES[:version]))
    assert _content(tables.read(spark, twins[0])) == _content(tables.read(spark, twins[1]))
    assert tables.read(spark, twins[0]).schema == tables.read(spark, twins[1]).schema


def _statistics(table: Path) -> dict[tuple[int, str], dict[str, Any]]:
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for version in range(1, len(BATCHES) + 1):
        for line in (table / "_delta_log" / f"{version:020d}.json").read_text().splitlines():
            if added := json.loads(line).get("add"):
                stats = json.loads(added["stats"])
                place = (version, added["partitionValues"]["part"])
                assert place not in found, (
                    "one file of each partition in each batch, or this compares the wrong ones"
                )
                found[place] = stats
    return found


def test_statistics_are_those_of_delta_or_missing(spark: SparkSession, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    table_commits.create_table(ours, _schema(COLUMNS).json(), partition=["part"])
    spark.sql(f"CREATE TABLE delta.`{theirs}` ({COLUMNS}) USING delta PARTITIONED BY (part)")
    for number, batch in enumerate(BATCHES):
        rows = spark.createDataFrame(batch, _schema(COLUMNS)).coalesce(1)
        _append(rows, ours, "twin", number)
        once = {"txnAppId": "tidemark-twin", "txnVersion": str(number)}
        rows.write.format("delta").mode("append").options(**once).save(str(theirs))
    mine, others = _statistics(ours), _statistics(theirs)

    assert mine.keys() == others.keys() and len(mine) == 5
    for place, stats in mine.items():
        assert stats["numRecords"] == others[place]["numRecords"]
        assert stats["nullCount"].items() <= others[place]["nullCount"].items()
        for bound in ("minValues", "maxValues"):
            assert stats[bound].items() <= others[place].get(bound, {}).items()
    assert mine[1, "1"]["minValues"].keys() >= {"n", "small"}


def test_statistics_let_spark_skip_files(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "table"
    table_commits.create_table(table, _schema("n BIGINT").json())
    for number in range(3):
        _append(spark.range(number * 10, number * 10 + 10).withColumnRenamed("id", "n"), table, "w", number)

    one = tables.read(spark, table).where("n = 15")

    assert [row.n for row in one.collect()] == [15]
    scan = one._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
    assert scan.metrics().apply("numFiles").value() == 1 < len(_ranges(table))


def _ranges(table: Path) -> list[tuple[str, int, int]]:
    actions = pa.table(table_commits.open_table(table).get_add_actions(flatten=True)).to_pylist()
    return [(action["path"], action["min.n"], action["max.n"]) for action in actions]


def test_a_number_that_was_committed_is_not_committed_again(
    spark: SparkSession, twins: tuple[Path, Path]
) -> None:
    for table in twins:
        before = _content(tables.read(spark, table))
        # Either writer sees what the other has committed.
        assert _append(spark.createDataFrame(BATCHES[0], _schema(COLUMNS)), table, "twin", 2) is None
        again = spark.createDataFrame(BATCHES[0], _schema(COLUMNS)).write.format("delta").mode("append")
        again.options(txnAppId="tidemark-twin", txnVersion="3").save(str(table))
        table_commits.append(table, BATCHES[0], ("tidemark-twin", 1))
        assert _content(tables.read(spark, table)) == before


def test_rows_of_this_process_are_as_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "table"
    table_commits.create_table(table, _schema(COLUMNS).json(), "of rows")
    rows = [row | {"ratio": 0.5} for row in BATCHES[0]]

    table_commits.append(table, rows, ("w", 0))
    _append(spark.createDataFrame(rows, _schema(COLUMNS)), table, "spark", 0)

    counts = (
        tables.read(spark, table).groupBy(*(c for c in rows[0] if c != "counts"), F.to_json("counts")).count()
    )
    assert [row["count"] for row in counts.collect()] == [2] * len(rows)


def test_columns_that_come_later_are_null_in_rows_before(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "table"
    table_commits.create_table(table, _schema("n BIGINT").json())
    _append(spark.range(1).withColumnRenamed("id", "n"), table, "w", 0)
    _append(spark.range(5, 6).selectExpr("id AS later", "id AS n"), table, "w", 1)

    assert sorted(map(tuple, tables.read(spark, table).select("n", "later").collect())) == [(0, None), (5, 5)]


def test_rows_are_removed_and_others_stay(
    spark: SparkSession, twins: tuple[Path, Path], tmp_path: Path
) -> None:
    conditions: dict[str, Callable[[pa.Table], pa.Array]] = {
        "n > 1152921504606847000": lambda rows: pc.greater(rows["n"], 1152921504606847000),
        "small = -3 AND ok": lambda rows: pc.and_(pc.equal(rows["small"], -3), rows["ok"]),
        "name IS NULL": lambda rows: pc.is_null(rows["name"]),
        "n < 0": lambda rows: pc.less(rows["n"], 0),
    }
    for number, table in enumerate(twins):
        version = table_commits.open_table(table).version()
        for condition in conditions.values():
            remove_rows(LocalEngine(), Home(tmp_path), table, _Gone(condition), None, "remove rows")
        expected = tables.read(spark, twins[1], version if number else None)
        if number == 0:
            first = _content(tables.read(spark, table))
            continue
        for text in conditions:
            expected = expected.where(f"NOT coalesce({text}, false)")
        assert _content(tables.read(spark, table)) == _content(expected) == first


@dataclass(frozen=True)
class _Gone:
    condition: Callable[[pa.Table], pa.Array]
    columns: tuple[str, ...] = ("n", "small", "ok", "name")

    def __call__(self, rows: pa.Table) -> pa.Array:
        return self.condition(rows)


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table_commits.create_table(table, _schema_of_numbers())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: table_commits.append(table, [{"n": n}], (f"w{n}", n)), range(40)))

    assert sorted(row["n"] for path in _paths(table) for row in pq.read_table(path).to_pylist()) == list(
        range(40)
    )
    assert table_commits.open_table(table).version() == 40


def test_of_two_writers_of_one_name_at_the_same_time_one_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table_commits.create_table(table, _schema_of_numbers())
    first, second = (table_commits.open_table(table) for _ in range(2))
    rows = pa.table({"n": pa.array([1])})

    table_commits.append_arrow(first, table, rows, ("w", 1))
    with pytest.raises(CommitFailedError):
        table_commits.append_arrow(second, table, rows, ("w", 1))

    assert len(_paths(table)) == 1


def _schema_of_numbers() -> str:
    field = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
    return json.dumps({"type": "struct", "fields": [field]})


def _paths(table: Path) -> list[Path]:
    return [table / path for path, _, _ in _ranges(table)]


def test_files_of_a_writer_that_died_before_its_commit_are_not_seen_and_vacuumed(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    table_commits.create_table(table, _schema_of_numbers())
    killing.kill_fresh("table.files-written", "tests.storage.appending", str(table))
    orphans = list(table.rglob("*.parquet"))
    assert len(orphans) == 1 and table_commits.open_table(table).version() == 0
    assert tables.read(spark, table).count() == 0

    table_maintenance.compact_and_vacuum(table, 0)

    assert not orphans[0].exists() and not orphans[0].parent.exists()


@pytest.mark.parametrize("timestamps", ["INT96", "TIMESTAMP_MICROS"])
def test_files_of_delta_itself_are_merged_with_ours(
    spark: SparkSession, tmp_path: Path, timestamps: str
) -> None:
    """A home of an earlier version has files that Delta's own writer made, with timestamps of 96 bits."""
    table = tmp_path / "table"
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    spark.conf.set("spark.sql.parquet.outputTimestampType", timestamps)
    try:
        frame = spark.createDataFrame(BATCHES[0], _schema(COLUMNS))
        frame.repartition(9).write.format("delta").save(str(table))
    finally:
        spark.conf.set("spark.sql.parquet.outputTimestampType", str(before))
    for number in range(9):
        table_commits.append(table, BATCHES[1], ("w", number))
    content = _content(tables.read(spark, table))

    assert table_maintenance.merge_small_files(table) >= 16

    assert _content(tables.read(spark, table)) == content
    assert DeltaTable.forPath(spark, str(table)).detail().collect()[0].numFiles == 1


def test_times_take_few_bytes_in_a_file_and_come_back_as_they_were(tmp_path: Path) -> None:
    times = pa.array([1_600_000_000_000_000 + 1_000_000 * n for n in range(50_000)])
    rows = pa.table({"at_us": times, "level": pa.nulls(50_000, pa.int32()), "name": ["a", "b"] * 25_000})
    table_commits.write_share([rows], tmp_path / "ours.parquet", rows.schema)
    pq.write_table(rows, tmp_path / "plain.parquet")

    assert (tmp_path / "ours.parquet").stat().st_size * 10 < (tmp_path / "plain.parquet").stat().st_size
    assert pq.read_table(tmp_path / "ours.parquet").equals(rows)

"""Equality of tables that tests fill without an ingest and those that an ingest fills."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import ingest
from lakehouse.settings import Settings, load_settings
from lakehouse.spark import tables
from lakehouse.storage.tables.table_log import read_log, read_rows
from tests.support.readings import declared
from tests.support.taking_in import take_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
T0 = 1_600_000_000
TABLES = ("raw", "quarantine", "ledger")


def land(settings: Settings, part: int) -> None:
    """Land a file with late rows, a missing value, one that repeats a row and one that contradicts it."""
    rows: list[dict[str, Any]] = [
        {
            "ts": T0 + 100 * part + n - (90 if n % 4 == 0 else 0) + n / 1000,
            "device": "ab"[n % 2],
            "temp": n / 8,
            "count": n,
        }
        for n in range(40)
    ]
    rows = [row | {"received": T0 + 100 * part + n} for n, row in enumerate(rows)]
    rows[5]["temp"] = None
    again, other = dict(rows[7]), rows[8] | {"count": 99}
    folder = Path(settings.streams["readings"].source.path).parent
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in [*rows, again, other])
    (folder / f"{part}.ndjson").write_text(text)


def content(settings: Settings, spark: SparkSession) -> dict[str, Any]:
    """Return the rows of each table as its files have them, and as Spark reads them."""
    found = {}
    for table in TABLES:
        path = getattr(settings.layout, table)("readings")
        names = tables.read(spark, path).drop("committed_at").columns
        frame = tables.read(spark, path).select(*sorted(names))
        own = [[row.get(name) for name in sorted(names)] for row in read_rows(path)]
        found[table] = (names, sorted(map(repr, own)), sorted(map(repr, frame.collect())), frame.schema)
    return found


@pytest.mark.parametrize("identity", ['["device", "ts"]', "[]"])
def test_taken_in_and_ingested_are_the_same_tables_and_either_goes_on_after_the_other(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings], identity: str
) -> None:
    settings = lakehouse_of(declared(options="batch_files = 1").replace('["device", "ts"]', identity, 1))
    other = load_settings(settings.config, tmp_path / "other")
    for part in range(2):
        land(settings, part)

    ingest.run(settings, spark, "readings")
    take_in(other, spark, "readings")
    taken, ingested = content(other, spark), content(settings, spark)
    for table in TABLES:
        assert taken[table] == ingested[table]

    land(settings, 2)
    ingest.run(other, spark, "readings")
    land(settings, 3)
    take_in(other, spark, "readings")
    ledger = read_rows(other.layout.ledger("readings"))
    log = read_log(other.layout.raw("readings"))
    assert log is not None and log.rows == sum(row["accepted"] for row in ledger)
    assert [row["batch"] for row in ledger] == [1, 2, 3, 4]
    assert ingest.run(other, spark, "readings")["batches"] == 0

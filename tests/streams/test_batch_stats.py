"""A file that changes while a batch of it is taken in: nothing is lost or twice, and what is stored is counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakehouse.home.table_log import read_rows
from lakehouse.streams import small_batch
from lakehouse.streams.batch_records import BatchRecords, Progress, StreamTables
from lakehouse.streams.ingest import BatchTables, BufferedBatch
from lakehouse.streams.small_batch import SmallBatch
from lakehouse.streams.sources.manifest_store import ManifestStore
from tests import readings
from tests.readings_lake import Lake
from tests.streams.test_small_batch import NoSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.declare.settings import Settings

T0 = 1_600_000_000


def begun(lakehouse_of: Callable[[str], Settings]) -> tuple[Lake, SmallBatch, list[str]]:
    """Return a batch that was read: its lakehouse, and its file's lines, of which the last contradicts the first."""
    settings = lakehouse_of(readings.declared("ndjson"))
    lake = Lake(cast("SparkSession", NoSession(settings)), settings)
    lines = [f'{{"ts": {T0 + n}, "device": "a", "temp": 1.0, "count": {n}}}\n' for n in range(6)]
    lines += ["no json\n", lines[0].replace("1.0", "2.5")]
    lake.land("a.ndjson", "".join(lines))
    target = StreamTables(lake.spark, settings.layout, settings.stream("readings"))
    target.create()
    store = ManifestStore(settings.layout.manifests("readings"))
    store.add_files(target.stream.source)
    judged = SmallBatch(BatchRecords(target, store.manifests[0], store, Progress(0, None)))
    assert judged.stats.accepted == 6 and judged.stats.reasons == {"malformed": 1, "conflict": 1}
    return lake, judged, lines


def test_a_conflict_keeps_its_bytes_where_its_file_is_gone_once_it_was_read(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    _, judged, lines = begun(lakehouse_of)
    (tmp_path / "landing" / "a.ndjson").unlink()

    found = zip(*(judged.rejected[name].to_pylist() for name in ("reason", "record")), strict=True)

    assert sorted(found) == [("conflict", lines[-1].strip().encode()), ("malformed", b"no json")]


@pytest.mark.parametrize("left", ["", "no json\n", "GOOD\nno json\n"])
@pytest.mark.parametrize("table", ["raw", "quarantine"])
def test_what_is_counted_is_what_is_stored_where_a_file_changed_after_an_attempt_that_died(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path, table: str, left: str
) -> None:
    lake, judged, lines = begun(lakehouse_of)
    batch = BatchTables(judged.records.tables, 1)
    if table == "raw":
        batch.append_raw(judged.accepted)
    else:
        batch.append_quarantine(judged.rejected)
    lake.land("a.ndjson", left.replace("GOOD\n", lines[2]))

    lake.ingest()
    lake.land("whole.ndjson", "".join(lines))
    lake.ingest()

    layout = lake.settings.layout
    ledger = read_rows(layout.ledger("readings"))
    told = [
        sum(row[word] for row in ledger) for word in ("accepted", "quarantined", "duplicates", "received")
    ]
    raw = [row["event_us"] // 1_000_000 - T0 for row in read_rows(layout.raw("readings"))]
    assert sorted(raw) == list(range(6))
    assert told[:2] == [6, len(read_rows(layout.quarantine("readings")))]
    assert sum(told[:3]) == told[3]


@pytest.mark.spark
def test_a_conflict_keeps_its_bytes_where_spark_judges_and_its_file_is_another_by_then(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path, spark: SparkSession
) -> None:
    _, small, lines = begun(lakehouse_of)
    records, others = small.records, set(spark.sparkContext._jsc.getPersistentRDDs())
    judged = BufferedBatch(replace(records, tables=replace(records.tables, spark=spark)))
    assert judged.stats.reasons == {"malformed": 1, "conflict": 1}
    (tmp_path / "landing" / "a.ndjson").write_text("another\n" * 9)

    found = {(row["reason"], bytes(row["record"])) for row in judged.rejected.collect()}
    judged.release()

    assert found == {("conflict", lines[-1].strip().encode()), ("malformed", b"no json")}
    # Those of others may be cleaned up meanwhile.
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) <= others


@pytest.mark.spark
@pytest.mark.parametrize("left", ["", "another\n" * 9])
def test_what_is_counted_is_what_is_stored_where_a_file_changes_while_rows_are_written_as_they_are_read(
    lakehouse_of: Callable[[str], Settings], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    monkeypatch.setattr(small_batch, "SMALL_BYTES", 0)
    lake = Lake(spark, lakehouse_of(readings.declared().replace('identity = ["device", "ts"]', "")))
    lake.land("a.ndjson", f'{{"ts": {T0}, "device": "a", "temp": 1.0, "count": 1}}\nno json\nno json\n')
    is_on = [True]

    def changes(event: str, told: Any) -> None:
        if is_on[0] and event == "tidemark.crash_point" and told[0] == "ingest.raw-appended":
            is_on[0] = False
            lake.land("a.ndjson", left)

    sys.addaudithook(changes)
    counts = lake.ingest()

    assert not is_on[0] and counts["accepted"] == len(lake.rows("raw", "batch")) == 1
    assert counts["quarantined"] == len(lake.rows("quarantine", "batch"))
    assert counts["received"] == counts["accepted"] + counts["quarantined"]

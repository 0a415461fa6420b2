"""A file that changes while a batch of it is taken in: nothing is lost or twice, and what is stored is counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.home.table_log import read_rows
from lakehouse.streams import small_batch
from lakehouse.streams.batch_records import BatchRecords, Progress, StreamTables
from lakehouse.streams.batch_stats import written_lateness
from lakehouse.streams.ingest import BatchTables, BufferedBatch
from lakehouse.streams.small_batch import SmallBatch
from lakehouse.streams.sources.manifest_store import ManifestStore
from tests import readings
from tests.readings_lake import Lake
from tests.streams.no_session import no_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.declare.settings import Settings

T0 = 1_600_000_000


def begun(lakehouse_of: Callable[[str], Settings]) -> tuple[Lake, SmallBatch, list[str]]:
    """Return a batch that was read: its lakehouse, and its file's lines, of which the last contradicts the first."""
    settings = lakehouse_of(readings.declared("ndjson"))
    lake = Lake(no_session(settings), settings)
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


DEVICES = ("-1", "-10", "-11", "-2")


def of_devices(lakehouse_of: Callable[[str], Settings], *batches: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return late rows and all rows of batches that hold one file of an hour for each device."""
    declared = readings.declared("ndjson").replace('arrival_time = { column = "received", unit = "s" }', "")
    settings = lakehouse_of(declared.replace('clock_bounds = { behind = "30d", ahead = "1h" }', ""))
    lake = Lake(no_session(settings), settings)
    for devices in batches:
        for device in devices:
            line = '{{"ts": {0}, "device": "{1}", "temp": 1.0, "count": 1}}\n'
            lake.land(f"d{device}.ndjson", "".join(line.format(T0 + 60 * n, device) for n in range(60)))
        lake.ingest()
    return [(row["late"], row["accepted"]) for row in read_rows(settings.layout.ledger("readings"))]


def test_one_file_of_each_device_in_one_batch_makes_no_row_late(
    lakehouse_of: Callable[[str], Settings],
) -> None:
    assert of_devices(lakehouse_of, DEVICES) == [(0, 240)]


def test_a_split_of_the_same_files_into_batches_adds_what_earlier_batches_had_reached(
    lakehouse_of: Callable[[str], Settings],
) -> None:
    # Of the second batch all rows but the last of each file are behind the end of the hour.
    assert sorted(of_devices(lakehouse_of, DEVICES[:1], DEVICES[1:])) == [(0, 60), (3 * 59, 180)]


@settings(max_examples=20, deadline=None)
@given(files=st.permutations(range(4)), cuts=st.sets(st.integers(1, 3)), seed=st.integers(0, 9))
def test_lateness_of_written_rows_depends_neither_on_names_nor_on_how_files_are_dealt_to_tasks(
    files: list[int], cuts: set[int], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    times = np.random.default_rng(seed).integers(0, 1000, (4, 30))
    folder = tmp_path_factory.mktemp("raw")
    for number, task in enumerate(np.split(np.array(files), sorted(cuts))):
        rows = {
            "event_us": pa.array(np.concatenate([times[file] for file in task])),
            "arrival_us": pa.nulls(30 * len(task), pa.int64()),
            "source_file": np.repeat([f"{seed}-{files.index(file)}" for file in task], 30),
        }
        pq.write_table(pa.table(rows), folder / f"{number}.parquet")
    stream = SimpleNamespace(arrival_time=None)
    records = cast("BatchRecords", SimpleNamespace(before=Progress(0, 500), stream=stream))

    found = written_lateness(records, list(folder.iterdir()))

    reached = np.maximum(np.maximum.accumulate(times, axis=1), 500)
    assert (found.late, found.newest_us) == (int((times < reached).sum()), max(500, int(times.max())))
    assert found.late <= times.size

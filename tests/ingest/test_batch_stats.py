"""A file that changes while a batch of it is taken in: nothing is lost or twice, and what is stored is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.engine.local import LocalEngine
from lakehouse.ingest.batch_jobs import judged_batch
from lakehouse.ingest.batch_records import BatchRecords, Progress, StreamTables
from lakehouse.ingest.batch_stats import batch_lateness
from lakehouse.ingest.ingest import BatchTables
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.tables.table_log import read_rows
from tests.ingest.no_session import no_session
from tests.support import readings
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from lakehouse.settings import Settings

T0 = 1_600_000_000


def begun(lakehouse_of: Callable[[str], Settings]) -> tuple[Lake, BatchRecords, list[str]]:
    """Return a batch that is not read yet: its lakehouse, and its file's lines; the last contradicts the first."""
    settings = lakehouse_of(readings.declared("ndjson"))
    lake = Lake(no_session(settings), settings)
    lines = [f'{{"ts": {T0 + n}, "device": "a", "temp": 1.0, "count": {n}}}\n' for n in range(6)]
    lines += ["no json\n", lines[0].replace("1.0", "2.5")]
    lake.land("a.ndjson", "".join(lines))
    target = StreamTables(lake.spark, settings.layout, settings.stream("readings"))
    target.create()
    store = ManifestStore(settings.layout.manifests("readings"))
    store.add_files(target.stream.source)
    return lake, BatchRecords(target, store.behind(0)[0], store, Progress(0, None)), lines


@pytest.mark.parametrize("left", ["", "no json\n", "GOOD\nno json\n"])
@pytest.mark.parametrize("table", ["raw", "quarantine"])
def test_what_is_counted_is_what_is_stored_where_a_file_changed_after_an_attempt_that_died(
    lakehouse_of: Callable[[str], Settings], table: str, left: str
) -> None:
    lake, records, lines = begun(lakehouse_of)
    judged = judged_batch(records)
    assert judged.stats.accepted == 6 and judged.stats.reasons == {"malformed": 1, "conflict": 1}
    BatchTables(records.tables, 1).commit_parts(getattr(judged, table), table)
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


def test_files_of_one_batch_have_the_order_of_their_arrival_times(
    lakehouse_of: Callable[[str], Settings],
) -> None:
    settings = lakehouse_of(readings.declared("ndjson"))
    lake, line = Lake(no_session(settings), settings), '{{"ts": {0}, "received": {1}, "device": "{2}"}}\n'
    # The second file's row arrived last, with the earliest time.
    lake.land("a.ndjson", line.format(T0 + 100, T0 + 101, "a") + line.format(T0 + 200, T0 + 201, "a"))
    lake.land("b.ndjson", line.format(T0 + 50, T0 + 202, "b"))
    lake.ingest()

    (row,) = read_rows(settings.layout.ledger("readings"))
    assert (row["late"], row["max_lateness_us"]) == (1, 150_000_000)


@settings(max_examples=20, deadline=None)
@given(
    order=st.permutations(range(4)),
    seed=st.integers(0, 9),
    is_arrived=st.booleans(),
    tasks=st.sampled_from([1, 3]),
)
def test_messages_are_late_against_those_before_them_however_partitions_are_dealt_to_tasks(
    order: list[int], seed: int, is_arrived: bool, tasks: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    times = np.random.default_rng(seed).integers(0, 1000, (2, 4, 30))
    folder = tmp_path_factory.mktemp("raw")
    for partition, (event, arrival) in enumerate(zip(*times, strict=True)):
        rows = {
            "event_us": pa.array(event),
            "arrival_us": pa.array(arrival) if is_arrived else pa.nulls(30, pa.int64()),
            "source_file": np.repeat(f"kafka:t/{partition}", 30),
        }
        pq.write_table(pa.table(rows), folder / f"{partition}.parquet")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lakehouse.ingest.batch_stats.ROWS_A_TASK", 120 // tasks)
        parts = [folder / f"{partition}.parquet" for partition in order]
        lateness = batch_lateness(LocalEngine(), parts, 500, 119, (0, 999) if is_arrived else None, "measure")

    event, arrival = times.reshape(2, -1)
    before = [max([500, *event[arrival < each]]) for each in arrival]
    in_order = np.maximum(np.maximum.accumulate(times[0], axis=1), 500).reshape(-1)
    assert lateness.late == int((event < (np.array(before) if is_arrived else in_order)).sum())

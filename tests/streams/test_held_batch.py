"""A file that changes while a batch of it is taken in: nothing is lost or twice, and what is stored is counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from lakehouse.home.table_log import read_rows
from lakehouse.streams.batch_records import BatchRecords, Progress, StreamTables
from lakehouse.streams.ingest import BatchTables
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

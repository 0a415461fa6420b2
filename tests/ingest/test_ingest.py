from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pytest

from jobs import requeue
from lakehouse.ingest.batch_jobs import judged_batch
from lakehouse.ingest.batch_records import BatchRecords, Progress, StreamTables
from lakehouse.ingest.drain import IngestRefused
from lakehouse.ingest.ingest import BatchTables
from lakehouse.ingest.quarantine import waiting_records
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.settings import Settings, load_settings
from lakehouse.spark import tables
from lakehouse.storage.tables.table_log import commits_of
from tests.support.readings import declared
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Make = Callable[..., Lake]
T0 = 1_600_000_000


def reading(second: float, device: str = "a", temp: object = 20.5, count: object = 1, **more: object) -> str:
    record = {"ts": T0 + second, "received": T0 + second, "device": device, "temp": temp, "count": count}
    return json.dumps(record | more) + "\n"


def test_good_readings_become_typed_rows_with_their_origin(lake: Make) -> None:
    stream = lake()
    stream.land("a.ndjson", "\n" + reading(0.25) + reading(1, temp=None))

    stream.ingest()

    found = stream.rows("raw", "event_us", "device", "temp", "count", "source_line", "batch")
    assert found == [(T0 * 10**6 + 250_000, "a", 20.5, 1, 2, 1), (T0 * 10**6 + 10**6, "a", None, 1, 3, 1)]


BAD = [
    ('{"ts": 1', "malformed"),
    ('{"ts": 1600000000}{"ts": 1600000001}', "malformed"),
    ("[1, 2]", "malformed"),
    ('{"device": "a"}', "no_event_time"),
    ('{"ts": "noon"}', "bad_event_time"),
    ('{"ts": 1e300}', "bad_event_time"),
    ('{"ts": 42}', "out_of_bounds"),
    ('{"ts": 1600000000, "received": "soon"}', "bad_arrival_time"),
    ('{"ts": 1600000000, "received": 1610000000}', "clock"),
    ('{"ts": 1600007200, "received": 1600000000}', "clock"),
    ('{"ts": 1600000000, "temp": "warm"}', "bad_value"),
    ('{"ts": 1600000000, "temp": "1d"}', "bad_value"),
    ('{"ts": 1600000000, "count": 1.5}', "bad_value"),
    ('{"ts": 1600000000, "device": "\udcff"}', "bad_utf8"),
]


def test_bad_records_go_to_quarantine_with_reason_bytes_and_line(lake: Make) -> None:
    stream = lake()
    lines = [line.encode("utf-8", "surrogateescape") for line, _ in BAD]
    stream.land("a.ndjson", reading(0).encode() + b"\n".join(lines) + b"\n")

    counts = stream.ingest()

    found = dict(
        (line, (reason, record))
        for line, reason, record in stream.rows("quarantine", "source_line", "reason", "record")
    )
    assert found == {
        n: (reason, line) for n, (line, (_, reason)) in enumerate(zip(lines, BAD, strict=True), start=2)
    }
    assert (counts["received"], counts["accepted"], counts["quarantined"]) == (len(BAD) + 1, 1, len(BAD))


def test_nan_and_infinity_count_as_missing(lake: Make) -> None:
    stream = lake()
    values = [float("nan"), float("inf"), float("-inf"), "NaN"]
    stream.land("a.ndjson", "".join(reading(n, temp=value, count=value) for n, value in enumerate(values)))

    stream.ingest()

    assert stream.rows("raw", "temp", "count") == [(None, None)] * 4
    assert stream.rows("ledger", "missing") == [({"device": 0, "ts": 0, "temp": 4, "count": 4},)]


def test_repeated_identity_is_kept_once_within_and_across_batches(lake: Make) -> None:
    stream = lake()
    stream.land("a.ndjson", reading(0) + reading(0) + reading(1))
    stream.ingest()
    stream.land("b.ndjson", reading(1, received=T0 + 60) + reading(2))

    counts = stream.ingest()

    assert len(stream.rows("raw", "event_us")) == 3
    assert stream.rows("ledger", "batch", "duplicates") == [(1, 1), (2, 1)]
    assert (counts["received"], counts["accepted"], counts["duplicates"]) == (2, 1, 1)


def test_an_append_reads_nothing_of_raw_so_that_a_merge_of_its_files_cannot_conflict(lake: Make) -> None:
    stream = lake()
    for name, text in {
        "a": reading(0) + reading(0) + reading(1),
        "b": reading(0) + reading(2) + reading(3, temp="warm"),
        "c": reading(2, temp=1.0) + reading(2) + reading(4),
    }.items():
        stream.land(f"{name}.ndjson", text)
        stream.ingest()
    stream.requeue()

    commits = commits_of(stream.settings.layout.raw("readings"))
    infos = [
        next(a["commitInfo"] for a in map(json.loads, path.read_text().splitlines()) if "commitInfo" in a)
        for path in commits
    ]
    blind = [info["isBlindAppend"] for info in infos if info["operation"] == "WRITE"]
    assert len(blind) == 4 and all(blind)


def test_same_identity_with_another_payload_is_a_conflict_with_its_bytes(lake: Make) -> None:
    stream = lake()
    stream.land("a.ndjson", reading(0, temp=1.0))
    stream.ingest()
    stream.land("b.ndjson", reading(0, temp=2.0))

    stream.ingest()

    assert stream.rows("raw", "temp") == [(1.0,)]
    assert stream.rows("quarantine", "reason", "record") == [
        ("conflict", reading(0, temp=2.0).strip().encode()),
    ]


def test_csv_is_read_by_name_and_ragged_lines_are_malformed(lake: Make) -> None:
    stream = lake("csv")
    stream.land(
        "a.csv",
        "\ufeffreceived, ts ,count,device,temp\r\n"
        f'{T0},{T0},3,"a, or b",NA\r\n'
        f"{T0},{T0 + 1},3,c\r\n{T0},{T0 + 2},3,c,1,extra\r\n",
    )

    stream.ingest()

    assert stream.rows("raw", "device", "temp", "count") == [("a, or b", None, 3)]
    assert stream.rows("quarantine", "reason", "source_line") == [("malformed", 3), ("malformed", 4)]


def test_header_that_lacks_a_column_quarantines_that_file_only(lake: Make) -> None:
    stream = lake("csv")
    stream.land("bad.csv", f"time,device,temp,count,received\n{T0},a,1,1,{T0}\n")
    stream.land("good.csv", f"ts,device,temp,count,received\n{T0},a,1,1,{T0}\n")

    stream.ingest()

    [(reason, detail)] = stream.rows("quarantine", "reason", "detail")
    assert reason == "missing_column" and "'ts' not among time, device" in detail
    assert len(stream.rows("raw", "event_us")) == 1


def test_zeek_reads_its_own_header_and_unset_fields(lake: Make) -> None:
    stream = lake("zeek")
    stream.land(
        "x.log", f"#separator \\x09\n#fields\tts\treceived\tdevice\ttemp\tcount\n{T0}.5\t{T0}\ta\t-\t4\n"
    )
    stream.ingest()
    assert stream.rows("raw", "event_us", "temp", "count") == [(T0 * 10**6 + 500_000, None, 4)]


def test_parquet_rows_take_the_same_way_as_lines(lake: Make, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = lake("parquet")
    columns = {
        "ts": [T0, None],
        "received": [T0, T0],
        "device": ["a", "b"],
        "temp": [1.5, 2.5],
        "count": [1, 2],
    }
    stream.land("x", b"")
    pq.write_table(pa.table(columns), tmp_path / "landing" / "a.parquet")
    (tmp_path / "landing" / "x").unlink()

    stream.ingest()

    assert stream.rows("raw", "device", "temp", "source_line") == [("a", 1.5, 1)]
    assert stream.rows("quarantine", "reason", "source_line") == [("no_event_time", 2)]


def test_unreadable_file_is_told_and_others_go_on(lake: Make) -> None:
    stream = lake()
    stream.land("a.ndjson.gz", b"not gzip at all")
    stream.land("b.ndjson.gz", gzip.compress(reading(0).encode())[:-9])
    stream.land("c.ndjson", reading(5))

    counts = stream.ingest()

    assert {row[0] for row in stream.rows("quarantine", "reason")} <= {"unreadable_file", "truncated_file"}
    assert counts["received"] == counts["accepted"] + counts["quarantined"] and counts["quarantined"] >= 2
    assert (T0 * 10**6 + 5 * 10**6,) in stream.rows("raw", "event_us")


def test_one_record_may_hold_several_rows(lake: Make, tmp_path: Path) -> None:
    stream = lake(options='explode = "heard"')
    text = (tmp_path / "tidemark.toml").read_text()
    text = text.replace('device = "string"', 'device = { path = "heard.by" }')
    (tmp_path / "tidemark.toml").write_text(text)
    stream = Lake(stream.spark, ingest_settings(tmp_path))
    stream.land("a.ndjson", reading(0, heard=[{"by": "x"}, {"by": "y"}]) + reading(1, heard=[]) + reading(2))

    counts = stream.ingest()

    assert stream.rows("raw", "device", "source_item") == [("x", 0), ("y", 1)]
    assert counts["received"] == 4 and stream.rows("ledger", "records") == [(3,)]
    assert stream.rows("quarantine", "reason") == [("no_items",), ("no_items",)]


def ingest_settings(folder: Path) -> Settings:
    return load_settings(folder / "tidemark.toml")


def waiting(lake: Lake) -> dict[str, int]:
    layout, stream = lake.settings.layout, lake.settings.stream("readings")
    return waiting_records(layout, stream)


def test_requeue_takes_records_through_again_after_a_fix(lake: Make, tmp_path: Path) -> None:
    stream = lake()
    stream.land("a.ndjson", reading(0) + reading(1, received=T0 + 40 * 86400) + '{"ts": 1\n')
    stream.ingest()
    config = tmp_path / "tidemark.toml"
    config.write_text(config.read_text().replace('behind = "30d"', 'behind = "90d"'))
    mended = Lake(stream.spark, ingest_settings(tmp_path))
    before = waiting(mended)

    counts = requeue.run(mended.settings, mended.spark, "readings")

    assert (counts["requeued"], counts["accepted"], counts["quarantined"]) == (2, 1, 1)
    assert [before, waiting(mended)] == [{"clock": 1, "malformed": 1}, {"malformed": 1}]
    assert len(mended.rows("raw", "event_us")) == 2
    again = requeue.run(mended.settings, mended.spark, "readings", ("clock",))
    assert again["requeued"] == 0


def test_running_again_changes_nothing(lake: Make) -> None:
    stream = lake()
    stream.land("a.ndjson", reading(0) + '{"ts": 1\n')
    stream.ingest()
    before = [stream.rows(table, "*") for table in ("raw", "quarantine", "ledger")]

    assert stream.ingest()["batches"] == 0

    assert [stream.rows(table, "*") for table in ("raw", "quarantine", "ledger")] == before


def test_lost_landing_folder_is_refused_not_read_twice(lake: Make) -> None:
    stream = lake()
    stream.land("a.ndjson", reading(0))
    stream.ingest()
    (stream.settings.home / "control.sqlite").unlink()

    with pytest.raises(IngestRefused, match="manifests only up to 0: restore it from a copy of the home"):
        stream.ingest()


def test_second_writer_is_turned_away_at_once(lake: Make) -> None:
    stream = lake()
    with (
        tables.turn(stream.settings.layout, stream.settings.layout.raw("readings"), "ingest"),
        pytest.raises(tables.LeaseHeld),
    ):
        stream.ingest()


def test_lateness_is_told_per_batch_from_the_newest_time_before(lake: Make) -> None:
    stream = lake()
    stream.land("a.ndjson", reading(100))
    stream.ingest()
    stream.land("b.ndjson", reading(40) + reading(200) + reading(190))
    stream.ingest()
    # Row 190 was received before row 200, so it is not late, wherever it stands.
    assert stream.rows("ledger", "batch", "late", "max_lateness_us") == [(1, 0, 0), (2, 1, 60 * 10**6)]


MIXED = (
    reading(100) + reading(40, temp=None) + '{"ts": 1\n',
    '{"device": "a"}\n' + reading(90) + reading(200, device="b") + reading(190),
)


def without_identity(stream: Lake) -> Lake:
    config = stream.settings.home.parent / "tidemark.toml"
    config.write_text(config.read_text().replace('identity = ["device", "ts"]', ""))
    return Lake(stream.spark, load_settings(config))


LEDGER = ("batch", "records", "received", "accepted", "quarantined", "duplicates", "reasons", "missing")
TIMES = ("min_event_us", "max_event_us", "newest_us", "late", "lateness", "max_lateness_us")


def test_rows_that_are_not_compared_are_counted_as_those_that_are(lake: Make, tmp_path: Path) -> None:
    held = lake()
    for number, text in enumerate(MIXED):
        held.land(f"{number}.ndjson", text)
    held.ingest()
    without_identity(held)
    passed = Lake(held.spark, load_settings(tmp_path / "tidemark.toml", tmp_path / "other"))
    assert not passed.settings.stream("readings").identity

    passed.ingest()

    for table, columns in {
        "ledger": LEDGER + TIMES,
        "quarantine": ("source_line", "reason", "record"),
    }.items():
        assert passed.rows(table, *columns) == held.rows(table, *columns)
    assert passed.rows("raw", "event_us", "device", "temp") == held.rows("raw", "event_us", "device", "temp")


def test_batch_that_died_after_raw_counts_what_it_would_have_counted(lake: Make, tmp_path: Path) -> None:
    undisturbed = without_identity(lake())
    for number, text in enumerate(MIXED):
        undisturbed.land(f"{number}.ndjson", text)
    undisturbed.ingest()
    died = Lake(undisturbed.spark, load_settings(tmp_path / "tidemark.toml", tmp_path / "other"))
    target = StreamTables(died.spark, died.settings.layout, died.settings.stream("readings"))
    target.create()
    store = ManifestStore(died.settings.layout.manifests("readings"))
    store.add_files(target.stream.source)
    records = BatchRecords(target, store.behind(0)[0], store, Progress(0, None))
    BatchTables(target, 1).commit_parts(judged_batch(records).raw, "raw")

    died.ingest()

    assert died.rows("ledger", *LEDGER, *TIMES) == undisturbed.rows("ledger", *LEDGER, *TIMES)
    assert died.rows("raw", "event_us", "device") == undisturbed.rows("raw", "event_us", "device")
    assert died.rows("quarantine", "reason") == undisturbed.rows("quarantine", "reason")


@pytest.mark.parametrize("text", ["", "\n\n", '{"ts": 1\n' * 3])
def test_batch_without_a_usable_row_is_finished_too(lake: Make, text: str) -> None:
    stream = without_identity(lake())
    stream.land("a.ndjson", text)

    stream.ingest()

    assert stream.rows("ledger", "batch", "accepted", "quarantined", "newest_us") == [
        (1, 0, text.count("{"), None)
    ]


def test_a_column_that_is_declared_later_is_null_in_rows_that_came_before(lake: Make) -> None:
    """Ingest of a stream with an identity raised: rows that may be repeated are compared with raw, which lacked it."""
    before = lake()
    before.land("a.ndjson", reading(0))
    before.ingest()
    after = lake(options='[streams.readings.columns.hum]\ntype = "double"')
    after.land("b.ndjson", reading(0) + reading(1, hum=0.5))

    after.ingest()

    assert after.rows("raw", "event_us", "hum") == [(T0 * 10**6, None), (T0 * 10**6 + 10**6, 0.5)]
    assert after.rows("ledger", "batch", "accepted", "duplicates") == [(1, 1, 0), (2, 1, 1)]


def test_a_batch_leaves_no_thread_and_no_open_file(lake: Make) -> None:
    """A service takes in batches for months."""
    stream, counts = lake(), []
    for number in range(8):
        stream.land(f"{number}.ndjson", reading(number))
        stream.ingest()
        counts.append((threading.active_count(), psutil.Process().num_fds()))

    threads, files = np.array(counts).T
    assert threads[-1] - threads[1] < 3
    assert files[-1] - files[1] < 3


OF_FILES = """
room = { file = 'room_ *(.*?)\\.csv' }
floor = { file = "floor(\\\\d+|x)?/", type = "int" }
device = "string"
"""


def test_a_column_can_be_told_by_the_path_of_the_file(
    lakehouse_of: Callable[[str], Settings], spark: SparkSession, tmp_path: Path
) -> None:
    text = declared("csv").replace("landing/*", "landing/**/*").replace('device = "string"\n', OF_FILES)
    stream = Lake(spark, lakehouse_of(text))
    places = ("floor1/room_hall.csv", "floorx/room_ .csv", "room_k\u00fcche \u20ac.csv", "attic.csv")
    for second, place in enumerate(places, T0):
        path = tmp_path / "landing" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"ts,received,device,temp,count\n{second},{T0},a,1.5,1\n{second},{T0},b,oops,1\n")

    stream.ingest()

    found = stream.rows("raw", "event_us", "room", "floor")
    assert [row[1:] for row in found] == [("hall", 1), ("k\u00fcche \u20ac", None), (None, None)]
    rejected = [Path(path).name for path, _ in stream.rows("quarantine", "source_file", "reason")]
    assert sorted(rejected) == sorted([*(Path(place).name for place in places), "room_ .csv"])

"""Streams whose files land on an object store: what holds for local files holds for them."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import maintain
from lakehouse.ingest.sources import object_store
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.set_aside import read_set_aside
from lakehouse.storage.stores.store_access import StoreUnavailable
from tests.algorithms.packets import made
from tests.ingest.sources.test_network import NEW, OLD, tsv
from tests.support.killing import kill
from tests.support.readings_lake import Lake
from tests.support.stores.s3 import BUCKET, KEY, S3, SECRET, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Make = Callable[..., Lake]
T0 = 1_600_000_000


@pytest.fixture(scope="module")
def store(spark: SparkSession) -> Iterator[S3]:
    with running() as server, pytest.MonkeyPatch.context() as patch:
        # Tasks of the tests' session are children of a JVM that was started without these.
        for name, value in os.environ.items():
            if name.startswith("AWS_"):
                patch.setitem(spark.sparkContext.environment, name, value)
        yield server


def changed(lake: Lake, *pairs: tuple[str, str]) -> Lake:
    """Return the lake with another configuration."""
    config = lake.settings.config
    assert config is not None
    text = config.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    return Lake(lake.spark, load_settings(config))


def remote(lake: Lake, store: S3, folder: str, *pairs: tuple[str, str]) -> Lake:
    """Return the lake with a landing place on the store."""
    place = f'path = "s3://{BUCKET}/{folder}/*"\nendpoint = "{store.endpoint}"'
    return changed(lake, ('path = "landing/*"', place), *pairs)


def reading(second: int, device: str = "a", temp: object = 1.5) -> bytes:
    return f'{{"ts": {T0 + second}, "received": {T0 + 9}, "device": "{device}", "temp": {temp}, "count": 2}}\n'.encode()


def seconds(lake: Lake) -> list[int]:
    return [event // 10**6 - T0 for (event,) in lake.rows("raw", "event_us")]


def tables(lake: Lake) -> dict[str, list[str]]:
    """Return all that a stream's tables hold but the folders of its files."""
    columns = ("event_us", "arrival_us", "device", "ts", "temp", "count", "source_line", "source_item")
    raw = lake.rows("raw", *columns, "source_file")
    rejected = lake.rows("quarantine", "reason", "detail", "record", "source_line", "source_file")
    counts = lake.rows("ledger", "records", "received", "accepted", "quarantined", "duplicates")
    return {
        name: sorted(repr((*row[:-1], os.path.basename(row[-1]))) for row in rows)
        for name, rows in (("raw", raw), ("quarantine", rejected))
    } | {"ledger": [repr(row) for row in counts]}


def csv_files() -> dict[str, bytes]:
    header, rows = (
        "ts,received,device,temp,count\n",
        [f"{T0 + n},{T0 + 9},d{n % 7},{n / 4},{n}" for n in range(500)],
    )
    text = (header + "\n".join(rows)).encode()
    bad = f"{header}{T0},{T0},d0,warm,1\n{T0}\n\n{T0 + 1},{T0 + 9},d1,0.25,1\n{'x' * 5000}\n".encode()
    return {
        "a.csv": text,
        "b b[1].csv": bad,
        "c.csv.gz": gzip.compress((header + f"{T0 + 900},{T0 + 901},z,1,1\n").encode()),
        "d.csv.gz": gzip.compress(text.replace(b"d1", b"e1"))[:-20],
        "e.csv": b"",
        "f.csv": b"ts,other\n1,2\n",
    }


def parquet_files(folder: Path) -> dict[str, bytes]:
    n = 300
    columns = {
        "ts": pa.array([T0 + k for k in range(n)], pa.uint32()),
        "received": pa.array([T0 + 9] * n, pa.int64()),
        "device": pa.array([f"d{k % 5}" for k in range(n)]).dictionary_encode(),
        "temp": pa.array([k / 3 if k % 10 else None for k in range(n)], pa.float64()),
        "count": pa.array([Decimal(k) for k in range(n)], pa.decimal128(9, 0)),
        "when": pa.array([datetime(2026, 1, 5, tzinfo=UTC)] * n, pa.timestamp("us", "UTC")),
        "naive": pa.array([datetime(2026, 1, 5, 1, 2, 3, 4)] * n, pa.timestamp("us")),
        "nested": pa.array([{"x": [k], "y": b"\x00\xff"} for k in range(n)]),
    }
    pq.write_table(pa.table(columns), folder / "whole.parquet", row_group_size=100)
    whole = (folder / "whole.parquet").read_bytes()
    (folder / "whole.parquet").unlink()
    damaged = bytearray(whole)
    damaged[8:400] = b"\x00" * 392
    return {
        "a.parquet": whole,
        "b+c %.parquet": whole,
        "damaged.parquet": bytes(damaged),
        "no.parquet": b"PAR1",
    }


def lines_of_json() -> dict[str, bytes]:
    text = b"".join(reading(n, f"d{n % 7}", n / 4) for n in range(200))
    return {
        "a.ndjson": text + b'{"ts": 1}\n{\n\n' + reading(900),
        "b.ndjson.gz": gzip.compress(text.replace(b'"d1"', b'"e1"')),
        "c.ndjson.gz": gzip.compress(text.replace(b'"d2"', b'"e2"'))[:-20],
    }


def of_networks(preset: str) -> dict[str, bytes]:
    """Return files of a preset, some of them damaged or of another kind."""
    if preset == "zeek-conn":
        log = tsv(*(f"{T0 + n}.5 C{n} 10.0.0.1 5353 224.0.0.251 53 udp 0.25 120 0 2 0" for n in range(30)))
        return {
            "a.log": log.encode(),
            "b.log.gz": gzip.compress(log.replace(" C", " D").encode()),
            "c.log": b'{"ts"',
        }
    if preset == "nfdump":
        return {"a.csv": OLD.encode(), "b.csv.gz": gzip.compress(NEW.encode()), "c.csv": b"no,header\n1,2\n"}
    frame = made.ethernet(made.ipv4(body=made.tcp(40000, 443, 2)))
    packets = made.pcap([(T0 + n, n, frame) for n in range(30)])
    return {"a.pcap": packets, "b.pcap.gz": gzip.compress(packets[:-3]), "c.pcap": b"none"}


@pytest.mark.parametrize("preset", ["zeek-conn", "nfdump", "pcap"])
def test_logs_exports_and_captures_on_a_store_make_the_tables_of_the_same_local_files(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings], store: S3, preset: str
) -> None:
    source = '[streams.flows.source]\npath = "landing/*"\nsettle = 0\n'
    here = Lake(spark, lakehouse_of(f'home = "var"\n[streams.flows]\npreset = "{preset}"\n{source}'), "flows")
    for name, content in of_networks(preset).items():
        here.land(name, content)
        store.put(f"{preset}/{name}", content)
    counts = here.ingest()
    columns = ("event_us", *here.settings.streams["flows"].all_columns, "source_line", "source_item")
    found = {
        "raw": here.rows("raw", *columns),
        "quarantine": here.rows("quarantine", "reason", "source_line"),
    }
    assert counts["accepted"] == len(found["raw"]) > 2 and len(found["quarantine"]) > 0

    there = remote(here, store, preset, ('home = "var"', 'home = "other"'))
    there = Lake(spark, there.settings, "flows")

    assert there.ingest()["accepted"] == counts["accepted"]
    assert there.rows("raw", *columns) == found["raw"]
    assert there.rows("quarantine", "reason", "source_line") == found["quarantine"]


@pytest.mark.parametrize(
    ("file_format", "runners"), [("csv", ("local", "spark")), ("ndjson", ("local",)), ("parquet", ("spark",))]
)
def test_the_same_files_here_and_on_a_store_make_the_same_tables(
    lake: Make,
    store: S3,
    tmp_path: Path,
    on_spark: SparkSession,
    file_format: str,
    runners: tuple[str, ...],
) -> None:
    files = {"csv": csv_files, "ndjson": lines_of_json}.get(file_format, partial(parquet_files, tmp_path))()
    here = lake(file_format, "max_record_bytes = 1000")
    there = remote(here, store, file_format, ('home = "var"', 'home = "other"'))
    for name, content in files.items():
        here.land(name, content)
        store.put(f"{file_format}/{name}", content)
    here.ingest()
    found = tables(here)
    assert len(found["raw"]) > 100 and len(found["quarantine"]) > 1

    for runner in runners:
        if runner == "spark":
            there = Lake(on_spark, there.settings)
        shutil.rmtree(there.settings.home, ignore_errors=True)
        there.ingest()

        assert tables(there) == found
    assert there.ingest()["files"] == 0 and tables(there) == found


def test_a_store_that_is_gone_costs_no_batch_an_attempt_and_a_file_that_is_gone_is_told(
    lake: Make, store: S3, on_spark: SparkSession
) -> None:
    stream = remote(lake(), store, "gone")
    for second, name in enumerate("ab"):
        store.put(f"gone/{name}", reading(second))
    words = ("jobs.ingest", "--config", str(stream.settings.config))
    kill(stream.spark, "ingest.manifest-written", *words)
    store.kill()
    with pytest.raises(StoreUnavailable, match=f"{store.endpoint} does not answer"):
        stream.ingest()
    for session in (stream.spark, on_spark, on_spark):
        # The batch is what a requeue begins with, before any listing.
        with pytest.raises(StoreUnavailable, match=f"^s3://{BUCKET}/gone/[ab]: {store.endpoint} does"):
            Lake(session, stream.settings).requeue()
    store.start()
    if not store.is_real:
        store.make_bucket()
        store.put("gone/a", reading(0))
    store.remove("gone/b")

    kill(stream.spark, "ingest.raw-appended", *words)
    stream.ingest()

    assert seconds(stream) == [0]
    assert [detail.split(":")[0] for _, detail in stream.rows("quarantine", "reason", "detail")] == [
        "[Errno 2] No such object"
    ]
    assert stream.rows("ledger", "kind", "received", "accepted", "quarantined") == [("files", 2, 1, 1)]
    assert read_set_aside(stream.settings.layout) == []
    home = [path for path in stream.settings.home.rglob("*") if path.is_file()]
    assert not [
        path for path in home if SECRET.encode() in path.read_bytes() or KEY.encode() in path.read_bytes()
    ]


def test_objects_that_were_read_whole_are_deleted_where_none_needs_them(lake: Make, store: S3) -> None:
    stream = remote(lake("ndjson", 'keep_files = "1us"'), store, "kept")
    store.put("kept/a", reading(1))
    store.put("kept/b.gz", gzip.compress(reading(2))[:-9])
    stream.ingest()

    assert maintain.run(stream.settings, stream.spark, "readings")["landed_files_deleted"] == 1

    left = object_store.listed(f"s3://{BUCKET}/kept/", store.endpoint)
    assert [url for url, _ in left] == [f"s3://{BUCKET}/kept/b.gz"]
    assert seconds(stream) == [1, 2]

"""Landed files go once they are old and everything in them is elsewhere, and never before."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs import ingest, maintain
from lakehouse.declare.settings import load_settings
from tests.readings import declared
from tests.readings_lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.declare.settings import Settings

pytestmark = pytest.mark.spark
T0 = 1_600_000_000
OLD = time.time() - 8 * 86_400
KEPT = 'keep_files = "7d"'


def reading(number: int, received: int = T0) -> str:
    return f'{{"ts": {T0 + number}, "received": {received}, "device": "a", "temp": 1.5, "count": {number}}}\n'


def land(folder: Path, *names: str, content: bytes = b"") -> None:
    """Land files that are eight days old."""
    for name in names:
        (folder / name).write_bytes(content or reading(ord(name[0])).encode())
        os.utime(folder / name, (OLD, OLD))


def folder_of(lake: Lake) -> Path:
    folder = Path(lake.settings.streams["readings"].source.path).parent
    folder.mkdir(exist_ok=True)
    return folder


def deleted(lake: Lake, stream: str = "readings") -> int:
    return int(maintain.run(lake.settings, lake.spark, stream)["landed_files_deleted"])


def test_old_files_go_that_were_read_whole_and_nothing_of_them_is_lost(
    lake: Callable[..., Lake], tmp_path: Path
) -> None:
    stream = lake("ndjson", KEPT)
    folder = folder_of(stream)
    land(folder, "a.ndjson", "b.ndjson", "changed.ndjson", "touched.ndjson")
    land(folder, "rejected.ndjson", content=reading(7, T0 + 40 * 86_400).encode())
    land(folder, "cut.ndjson.gz", content=gzip.compress(reading(8).encode() * 999)[:-20])
    land(folder, "unreadable.ndjson.gz", content=b"\x1f\x8b\x08rubbish")
    (folder / "young.ndjson").write_text(reading(9))
    stream.ingest()
    before = stream.rows("raw", "event_us", "source_file")
    land(folder, "changed.ndjson", content=reading(10).encode() * 2)
    os.utime(folder / "touched.ndjson", (OLD + 1, OLD + 1))
    land(folder, "unread.ndjson")

    assert deleted(stream) == 3

    left = {"changed.ndjson", "touched.ndjson", "cut.ndjson.gz", "unreadable.ndjson.gz"}
    assert {path.name for path in folder.iterdir()} == left | {"young.ndjson", "unread.ndjson"}
    assert (stream.rows("raw", "event_us", "source_file"), deleted(stream)) == (before, 0)
    assert stream.ingest()["files"] == 1
    # Under a name that was read nothing new is read, and what was rejected needs its file no more.
    land(folder, "a.ndjson")
    assert stream.ingest()["files"] == 0
    config = tmp_path / "tidemark.toml"
    config.write_text(config.read_text().replace('behind = "30d"', 'behind = "90d"'))
    assert ingest.requeue(load_settings(config), stream.spark, "readings", ("clock",))["accepted"] == 1


def test_a_file_that_another_stream_names_goes_when_both_have_read_it_and_neither_keeps_it(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    one = declared("ndjson", KEPT)
    two = one.partition("[streams.readings]")[2].replace("streams.readings", "streams.others")
    lake = Lake(spark, lakehouse_of(f"{one}[streams.others]{two}"))
    folder = folder_of(lake)
    land(folder, "a.ndjson")
    lake.ingest()

    assert deleted(lake) == 0
    ingest.run(lake.settings, spark, "others")
    config = tmp_path / "tidemark.toml"
    config.write_text(config.read_text()[::-1].replace(KEPT[::-1], "", 1)[::-1])
    keeps = Lake(spark, load_settings(config))
    assert (keeps.settings.streams["others"].source.keep_files, deleted(keeps)) == (None, 0)
    assert (deleted(lake, "others"), list(folder.iterdir())) == (1, [])


def test_a_file_that_cannot_be_deleted_is_told_and_stops_nothing(
    lake: Callable[..., Lake], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = lake("ndjson", KEPT)
    folder = folder_of(stream)
    land(folder, "a.ndjson", "b.ndjson")
    stream.ingest()
    unlink = Path.unlink

    def not_a(path: Path, missing_ok: bool = False) -> None:
        if path.name == "a.ndjson":
            raise PermissionError(1, "Operation not permitted")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", not_a)

    assert deleted(stream) == 1
    assert (
        "a.ndjson was read and is kept no longer, but cannot be deleted: Operation not permitted"
        in caplog.text
    )

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import build_rollups, check_quality, ingest, maintain, publish, requeue
from lakehouse.checks.checks import measure, open_tables
from lakehouse.engine.local import LocalEngine
from lakehouse.ingest.sources.manifest import Manifest
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.question import AskError
from lakehouse.serving.status import status
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.checked import Checked
from lakehouse.storage.control.manifests import Manifests
from lakehouse.storage.corrections import raw_from, read_corrections
from tests.engine.jobs import jobs_of
from tests.support.folded import folded, rows_of
from tests.support.readings import declared
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
T0 = 1_600_000_020
MINUTE = 60
OLD = time.time() - 8 * 86_400
KEPT = 'keep_files = "7d"'


def reading(second: int, device: str = "a") -> dict[str, Any]:
    """Return a reading whose sums are exact, whatever the order of additions."""
    return {"ts": T0 + second, "received": T0, "device": device, "temp": second / 8, "count": second % 7}


def forgetful(spark: SparkSession, lakehouse_of: Callable[[str], Settings]) -> Lake:
    """A stream that keeps ten minutes of raw rows, with half an hour of them taken in.

    What is kept counts from before the last batch: that one moves the newest time by seven seconds only.
    """
    text = declared().replace('duplicates_within = "1d"', 'duplicates_within = "1m"\nkeep_raw = "10m"')
    stream = Lake(spark, lakehouse_of(text))
    take_in(stream, "0.ndjson", [reading(second) for second in range(0, 1799, 7)])
    take_in(stream, "1.ndjson", [reading(1799)])
    return stream


def take_in(stream: Lake, name: str, readings: list[dict[str, Any]]) -> None:
    stream.land(name, "".join(json.dumps(row) + "\n" for row in readings))
    stream.ingest()
    build_rollups.run(stream.settings, stream.spark, "readings")


def nodes(stream: Lake) -> list[Any]:
    return sorted(map(repr, rows_of(folded(stream.settings, "readings"))))


def deviations(stream: Lake) -> list[str]:
    """Metrics that are not 0, over all tables and all batches."""
    tables = open_tables(stream.settings.layout, stream.settings.stream("readings"), Checked())
    assert tables is not None
    frames, _ = measure(tables, LocalEngine())
    return [
        f"{frame.table}.{name}"
        for frame in frames
        for row in frame.rows
        for name, value in row.items()
        if name not in (*frame.place, "rejected_share") and value
    ]


def test_old_raw_rows_go_in_whole_top_nodes_and_everything_still_balances(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    before = nodes(stream)
    folder = stream.settings.layout.manifests("readings")
    ManifestStore(folder).put_in_place(Manifest(3, "files"))
    assert maintain.run(stream.settings, spark, "readings")["raw_dropped"] == 0
    manifests = Manifests(folder)
    manifests.store.transact([manifests.dropping(2)])
    dropped = maintain.run(stream.settings, spark, "readings")["raw_dropped"]
    cut = T0 + 1799 - 10 * MINUTE - (T0 + 1799) % MINUTE

    assert {row[0] for row in stream.rows("raw", "event_us")} == {
        10**6 * (T0 + second) for second in range(0, 1800, 7) if T0 + second >= cut
    }
    assert raw_from(read_corrections(stream.settings.layout, "readings")) == cut * 10**6
    assert (nodes(stream), deviations(stream)) == (before, [])
    assert len(stream.rows("raw", "event_us")) + dropped == 258
    assert maintain.run(stream.settings, spark, "readings")["raw_dropped"] == 0


def test_a_row_later_than_raw_is_kept_counts_in_the_nodes_and_leaves_raw_again(
    spark: SparkSession, on_spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    # One counts old rows, one remembers what they were, one removes them; one counts new nodes, one brings these to
    # their parts.
    assert jobs_of(on_spark, lambda: maintain.run(stream.settings, on_spark, "readings")) <= 5
    # One reads new rows and nodes; rows meet by identity in the other.
    assert jobs_of(on_spark, lambda: check_quality.run(stream.settings, on_spark, "readings")) <= 2
    stream.land("late.ndjson", json.dumps(reading(3)) + "\n")
    # One reads and compares; one measures lateness, one what nothing is known of.
    assert jobs_of(on_spark, lambda: ingest.run(stream.settings, on_spark, "readings")) <= 3
    build_rollups.run(stream.settings, spark, "readings")

    with_late = nodes(stream)
    publish.run(stream.settings, spark, unchecked=True)
    found = status(stream.settings.home)["streams"][0]
    assert (found["rows"], found["unchecked"]) == (259, 1)
    figures = maintain.run(stream.settings, spark, "readings")

    assert figures["raw_dropped"] == 1
    assert (nodes(stream), deviations(stream)) == (with_late, [])
    publish.run(stream.settings, spark, unchecked=True)
    found = status(stream.settings.home)["streams"][0]
    assert (found["rows"], found["unchecked"]) == (259, 1)
    assert found["levels"][2]["nodes"] == 2 * 30
    assert [level["entered"] for level in found["levels"]] == [10, 85, 164]


def test_exact_answers_need_raw_rows_unless_nodes_say_it_exactly(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    publish.run(stream.settings, spark, unchecked=True)
    home, us = stream.settings.home, 10**6
    exactly = ask(home, "readings", "temp", "sum", (T0 + 33) * us, (T0 + 1777) * us, exact=True)
    # The published version is from before: what raw rows are gone is known all the same.
    maintain.run(stream.settings, spark, "readings")

    with pytest.raises(AskError, match=r"readings keeps those from 2020-09-13T12:\d\d:00\+00:00 on"):
        ask(home, "readings", "temp", "sum", (T0 + 33) * us, (T0 + 1777) * us, exact=True)
    (whole,) = ask(home, "readings", "temp", "sum", T0 * us, (T0 + 1800) * us, exact=True)
    (recent,) = ask(home, "readings", "temp", "sum", (T0 + 1501) * us, (T0 + 1777) * us, exact=True)
    assert exactly[0].exact and whole.exact and whole.nodes_read > 0
    assert (recent.exact, recent.nodes_read) == (True, 0)
    assert recent.value == pytest.approx(sum(s / 8 for s in range(0, 1800, 7) if 1501 <= s < 1777))


def line_of(number: int, received: int = T0) -> str:
    return f'{{"ts": {T0 + number}, "received": {received}, "device": "a", "temp": 1.5, "count": {number}}}\n'


def land(folder: Path, *names: str, content: bytes = b"") -> None:
    """Land files that are eight days old."""
    for name in names:
        (folder / name).write_bytes(content or line_of(ord(name[0])).encode())
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
    land(folder, "rejected.ndjson", content=line_of(7, T0 + 40 * 86_400).encode())
    land(folder, "cut.ndjson.gz", content=gzip.compress(line_of(8).encode() * 999)[:-20])
    land(folder, "unreadable.ndjson.gz", content=b"\x1f\x8b\x08rubbish")
    (folder / "young.ndjson").write_text(line_of(9))
    stream.ingest()
    before = stream.rows("raw", "event_us", "source_file")
    land(folder, "changed.ndjson", content=line_of(10).encode() * 2)
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
    assert requeue.run(load_settings(config), stream.spark, "readings", ("clock",))["accepted"] == 1


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
    unlink = os.unlink

    def not_a(path: str, *, dir_fd: int | None = None) -> None:
        if path == "a.ndjson":
            raise PermissionError(1, "Operation not permitted")
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", not_a)

    assert deleted(stream) == 1
    assert (
        "a.ndjson was read and is kept no longer, but cannot be deleted: Operation not permitted"
        in caplog.text
    )

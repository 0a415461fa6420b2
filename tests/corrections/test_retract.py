from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import maintain, merge_raw, retract
from lakehouse.corrections.rebuild import RawIncomplete
from lakehouse.corrections.retract import RetractRefused, Wrong
from lakehouse.ingest.sources.manifest import Manifest
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.rollup import rollup
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.control.lease import LeaseHeld, files_of, turn
from lakehouse.storage.corrections import read_corrections
from lakehouse.storage.tables.rollup_table import read_marker
from tests.corrections.test_retention import T0, deviations, forgetful, nodes, reading, take_in
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
US = 10**6


def content(stream: Lake) -> tuple[Any, ...]:
    """What must be as if the wrong rows had never come: rows, nodes, newest time and the ledger's times."""
    marker = read_marker(stream.settings.layout.rollup("readings"))
    raw = stream.rows("raw", "event_us", "device", "temp", "count")
    newest = max(row[0] for row in stream.rows("ledger", "newest_us"))
    return raw, nodes(stream), marker.newest_us, newest


def taken_out(stream: Lake, wrong: Wrong) -> dict[str, Any]:
    return retract.run(stream.settings, stream.spark, "readings", wrong, by="ann", why="broken probe")


def beside(stream: Lake, folder: Path, batches: Sequence[Sequence[dict[str, Any]]]) -> Lake:
    """A home of its own that takes in these batches, from the same configuration."""
    config = Path(str(stream.settings.config))
    folder.mkdir()
    (folder / "tidemark.toml").write_text(config.read_text())
    other = Lake(stream.spark, load_settings(folder / "tidemark.toml"))
    for number, readings in enumerate(batches):
        take_in(other, f"{number}.ndjson", list(readings))
    return other


def test_while_files_of_raw_are_merged_rows_come_in_and_none_are_taken_out(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    before = len(stream.rows("raw", "event_us"))

    with ThreadPoolExecutor(1) as pool:
        with turn(stream.settings.layout, files_of(stream.settings.layout.raw("readings")), "merge"):
            take_in(stream, "more.ndjson", [reading(1800, "b")])
            with pytest.raises(LeaseHeld, match="another process writes this table now"):
                merge_raw.run(stream.settings, spark, "readings")
            taking_out = pool.submit(taken_out, stream, Wrong(None, {"device": "b"}))
            while not (begun := read_corrections(stream.settings.layout, "readings")):
                time.sleep(0.1)
            time.sleep(1)
            assert len(stream.rows("raw", "event_us")) == before + 1
            assert [each.done for each in begun] == [False]
        assert taking_out.result(60)["rows"] == 1

    assert len(stream.rows("raw", "event_us")) == before


def test_a_wrong_file_that_moved_now_ahead_leaves_no_trace(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    stream = forgetful(spark, lakehouse_of)
    wrong = [reading(second, "a") for second in (5, 1795, 3000)]
    take_in(stream, "wrong.ndjson", wrong)
    rollup.compact(spark, stream.settings.layout, stream.settings.stream("readings"))
    later = [reading(second, "b") for second in range(1700, 1850, 3)]
    take_in(stream, "later.ndjson", later)
    right = [reading(second) for second in range(0, 1800, 7)]
    never = beside(stream, tmp_path / "never", [right, later])

    file = str(Path(stream.settings.stream("readings").source.path).parent / "wrong.ndjson")
    dry = retract.run(stream.settings, spark, "readings", Wrong(file), "ann", "broken probe", dry_run=True)
    figures = taken_out(stream, Wrong(file))

    assert (dry["rows"], figures["rows"], figures["batches"]) == (3, 3, 1)
    assert content(stream) == content(never)
    assert deviations(stream) == []
    (record,) = read_corrections(stream.settings.layout, "readings")
    assert (record.by, record.why, record.rows, record.done) == ("ann", "broken probe", 3, True)
    assert taken_out(stream, Wrong(file))["rows"] == 0
    take_in(stream, "next.ndjson", [reading(1900)])
    take_in(never, "next.ndjson", [reading(1900)])
    assert content(stream) == content(never)


def test_rows_are_named_by_values_and_time_and_others_stay(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    stream = forgetful(spark, lakehouse_of)
    others = [reading(second, "it's \\ b") for second in range(0, 1700, 11)]
    take_in(stream, "others.ndjson", others)
    right = [reading(second) for second in range(0, 1800, 7)]
    kept = [row for row in others if not 600 <= row["ts"] - T0 < 1200]
    never = beside(stream, tmp_path / "never", [right, kept])

    figures = taken_out(
        stream, Wrong(where={"device": "it's \\ b"}, from_us=(T0 + 600) * US, to_us=(T0 + 1200) * US)
    )

    assert figures["rows"] == len(others) - len(kept)
    assert content(stream) == content(never)
    assert deviations(stream) == []


def test_what_raw_no_longer_holds_cannot_be_taken_out(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    maintain.run(stream.settings, spark, "readings")
    before = content(stream)

    with pytest.raises(RawIncomplete, match="give --from 2020-09-13T12:46:00 or later"):
        taken_out(stream, Wrong(where={"device": "a"}))
    with pytest.raises(RetractRefused, match="no column 'devise'; there are"):
        taken_out(stream, Wrong(where={"devise": "a"}))
    assert content(stream) == before

    # The newest row goes, and with it the time to which the finest level reaches back.
    assert taken_out(stream, Wrong(where={"device": "a"}, from_us=(T0 + 1770) * US))["rows"] == 5
    assert content(stream)[2] == (T0 + 1764) * US == content(stream)[3]
    assert deviations(stream) == []


def test_a_batch_that_waits_must_be_finished_first(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    ManifestStore(stream.settings.layout.manifests("readings")).put_in_place(Manifest(3, "files"))

    with pytest.raises(RetractRefused, match="batch 3 was begun and is not finished"):
        taken_out(stream, Wrong(where={"device": "a"}))

"""A batch that fails whatever is done: what is not its fault is taken in, what is is set aside, and nothing is lost."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.ingest.sources import lines
from lakehouse.ingest.sources.manifest import LandedFile
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.set_aside import read_set_aside
from tests.support.crash_points import SPLIT_POINTS
from tests.support.killing import kill
from tests.support.readings_lake import Lake

pytestmark = pytest.mark.spark
Make = Callable[..., Lake]
T0 = 1_600_000_000
PARSED = "ingest.batch-parsed"
[REMOVED] = SPLIT_POINTS


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> dict[str, Exception]:
    """Files whose reading fails with an error, by name."""
    errors, read = dict[str, Exception](), lines.records_of

    def records_of(file: LandedFile, source: Any) -> Iterator[pa.RecordBatch]:
        if error := errors.get(os.path.basename(file.path)):
            raise error
        yield from read(file, source)

    monkeypatch.setattr(lines, "records_of", records_of)
    return errors


def landed(lake: Lake, names: str, first: int = 0) -> None:
    for second, name in enumerate(names, first):
        lake.land(
            name, f'{{"ts": {T0 + second}, "received": {T0}, "device": "a", "temp": 1.5, "count": 2}}\n{{\n'
        )


def seconds(lake: Lake) -> list[int]:
    return [event // 10**6 - T0 for (event,) in lake.rows("raw", "event_us")]


def aside(lake: Lake) -> list[tuple[str, str]]:
    return [(os.path.basename(each.place), each.error) for each in read_set_aside(lake.settings.layout)]


def balanced(lake: Lake) -> bool:
    names = ("received", "requeued", "accepted", "quarantined", "duplicates")
    return all(r + q == a + x + d for r, q, a, x, d in lake.rows("ledger", *names))


def test_after_three_failures_the_file_is_found_and_set_aside_and_requeued(
    lake: Make, failing: dict[str, Exception]
) -> None:
    stream = lake()
    landed(stream, "abcde")
    failing["d"] = RuntimeError("the codec gave up")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="gave up"):
            stream.ingest()
    assert seconds(stream) == []

    counts = stream.ingest()
    landed(stream, "f", first=5)
    stream.ingest()

    assert seconds(stream) == [0, 1, 2, 4, 5]
    assert (counts["received"], counts["accepted"], counts["quarantined"]) == (8, 4, 4)
    assert aside(stream) == [("d", "RuntimeError: the codec gave up")]
    assert [kind for _, kind in stream.rows("ledger", "batch", "kind")] == [
        *("split", "files", "split", "files", "split", "set_aside", "files", "files")
    ]
    failing["d"] = RuntimeError("it still does")
    stream.requeue()
    assert aside(stream) == [("d", "RuntimeError: it still does")]

    failing.clear()
    stream.requeue()
    stream.ingest()

    assert seconds(stream) == [0, 1, 2, 3, 4, 5]
    assert aside(stream) == [] and balanced(stream)


def test_a_batch_that_ends_the_engine_thrice_is_halved_by_the_next_process_without_another_try(
    lake: Make, failing: dict[str, Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt ends as where Spark's JVM dies in it: the process raises what it failed with, and ends."""
    stream = lake()
    landed(stream, "abc")
    gateway, ended = stream.spark.sparkContext._gateway, subprocess.Popen(["true"])
    assert ended.wait() == 0 and gateway is not None
    failing["b"] = ConnectionRefusedError(111, "Connection refused")
    for _ in range(3):
        with pytest.MonkeyPatch.context() as engine:
            engine.setattr(lines, "records_of", _ending(gateway, ended, engine))
            with pytest.raises(ConnectionRefusedError):
                stream.ingest()
    reads, read = list[str](), vars(lines)["records_of"]

    def watched(file: LandedFile, source: Any) -> Iterator[pa.RecordBatch]:
        reads.append(os.path.basename(file.path))
        yield from read(file, source)

    monkeypatch.setattr(lines, "records_of", watched)
    stream.ingest()

    assert reads == ["a", "b", "b", "c"]  # Of the halves, of which one is halved again.
    assert seconds(stream) == [0, 2] and [name for name, _ in aside(stream)] == ["b"] and balanced(stream)


def _ending(gateway: Any, ended: subprocess.Popen[bytes], engine: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a reader of files that lets the JVM's process be one that has ended before it reads one that fails."""
    read = vars(lines)["records_of"]

    def records_of(file: LandedFile, source: Any) -> Iterator[pa.RecordBatch]:
        if file.path.endswith("b"):
            engine.setattr(gateway, "proc", ended)
        yield from read(file, source)

    return records_of


def test_a_full_disk_is_not_the_fault_of_a_batch(lake: Make, failing: dict[str, Exception]) -> None:
    stream = lake()
    landed(stream, "ab")
    failing["b"] = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for _ in range(5):
        with pytest.raises(OSError, match="No space left"):
            stream.ingest()
    failing.clear()

    stream.ingest()

    assert seconds(stream) == [0, 1] and [kind for (kind,) in stream.rows("ledger", "kind")] == ["files"]


def test_a_process_that_dies_in_a_batch_counts_and_what_was_written_is_taken_back(
    lake: Make, tmp_path: Path
) -> None:
    """The batch is killed thrice as a whole, the first of its halves once; killed at the split, it goes on."""
    stream = lake()
    landed(stream, "ab")
    words = ("jobs.ingest", "--config", str(tmp_path / "tidemark.toml"))
    kill(stream.spark, "ingest.raw-appended", *words)
    for point in (PARSED, PARSED, REMOVED, PARSED):
        kill(stream.spark, point, *words)

    stream.ingest()

    assert seconds(stream) == [1]
    assert aside(stream) == [("a", "the process that took it in ended in the midst of it")]
    stream.requeue()
    assert seconds(stream) == [0, 1] and aside(stream) == [] and balanced(stream)
    store = ManifestStore(stream.settings.layout.manifests("readings"))
    assert sorted(os.path.basename(f.path) for m in store.behind(0) for f in m.files) == ["a", "b"]

"""One ingest batch by the engine: the same tables on either runner, however files are dealt to tasks and batches."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.ingest import batch_parts, file_records
from lakehouse.ingest.file_records import FileRecords
from lakehouse.ingest.identities import batch_identities
from lakehouse.ingest.sources.landed_content import SourceChanged
from lakehouse.settings import Settings
from tests.support import readings
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T0 = 1_600_000_000
RAW = ("event_us", "arrival_us", "device", "ts", "temp", "count", "source_file", "source_line", "source_item")
QUARANTINE = ("reason", "detail", "record", "source_file", "source_line", "source_item")
WAYS = [("local", identity) for identity in ('["device", "ts"]', '["*"]', '["device"]', "[]")]
WAYS += [pytest.param("spark", '["device", "ts"]', marks=pytest.mark.spark)]  # type: ignore[list-item]


def line(pick: random.Random) -> str:
    second = pick.randrange(40)
    record = {"ts": T0 + second, "received": T0, "device": pick.choice("abc")}
    text = json.dumps(record | {"temp": float(pick.randrange(2)), "count": pick.choice([1, 1, 1, None, "x"])})
    return pick.choice([text] * 9 + [text[:-1]]) + "\n"


@pytest.fixture
def lake(lakehouse_of: Callable[[str], Settings], request: pytest.FixtureRequest) -> Callable[..., Lake]:
    """Return a lakehouse whose kernels run where it is asked for."""

    def make(runner: str, identity: str) -> Lake:
        session: SparkSession = request.getfixturevalue("on_spark" if runner == "spark" else "session")
        within = "" if identity == "[]" else 'duplicates_within = "10s"'
        declared = readings.declared("ndjson").replace('["device", "ts"]', identity, 1)
        return Lake(session, lakehouse_of(declared.replace('duplicates_within = "1d"', within)))

    return make


def seen(stream: Lake) -> dict[str, Any]:
    sums: Counter[str] = Counter()
    names = ("received", "accepted", "quarantined", "duplicates")
    for row in stream.rows("ledger", *names):
        sums.update(dict(zip(names, row, strict=True)))
        assert row[0] == sum(row[1:])
    return {"raw": stream.rows("raw", *RAW), "quarantine": stream.rows("quarantine", *QUARANTINE), **sums}


@pytest.mark.parametrize(("runner", "identity"), WAYS)
def test_a_batch_is_the_same_however_it_is_dealt_to_tasks_and_as_batch_after_batch(
    lake: Callable[..., Lake], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: str, identity: str
) -> None:
    pick, found = random.Random(identity), list[dict[str, Any]]()
    files = {f"{name}.ndjson": "".join(line(pick) for _ in range(30)) for name in "abcdef"}
    for way in ("one task", "many tasks", "file by file"):
        (tmp_path / way).mkdir()
        stream = lake(runner, identity)
        stream = Lake(stream.spark, stream.settings.model_copy(update={"home": tmp_path / way}))
        for each in Path(stream.settings.streams["readings"].source.path).parent.glob("*"):
            each.unlink()
        if way == "many tasks":
            monkeypatch.setattr(file_records, "ITEM_BYTES", 3000)
            monkeypatch.setattr(batch_parts, "_PART_ROWS", 7)
            monkeypatch.setattr(batch_identities, "_BUCKET_BYTES", 1000)
        for name, text in files.items():
            stream.land(name, text)
            if way == "file by file":
                stream.ingest()
        stream.ingest()
        assert stream.ingest()["batches"] == 0
        found.append(seen(stream))
    assert found[0]["duplicates"] > 0 or identity == "[]"
    assert found[1] == found[0] and found[2] == found[0]


@pytest.mark.spark
@pytest.mark.parametrize(("identity", "expected"), [("[]", [1, 1, 1]), ('["device", "ts"]', [1, 1, 2])])
def test_a_batch_is_one_job_and_one_more_if_rows_repeat_others(
    lake: Callable[..., Lake], identity: str, expected: list[int]
) -> None:
    stream, jobs = lake("spark", identity), list[int]()
    tracker = stream.spark.sparkContext.statusTracker()
    for batch, seconds in enumerate([(1, 2), (3, 4), (4, 5)]):
        text = '{{"ts": {0}, "received": {0}, "device": "a", "temp": 1.0, "count": 1}}\n'
        stream.land(f"{batch}", "".join(text.format(T0 + second) for second in seconds))
        before = set(tracker.getJobIdsForGroup(None))
        stream.ingest()
        jobs.append(len(set(tracker.getJobIdsForGroup(None)) - before))
    assert jobs == expected


def test_a_file_that_changes_before_its_conflicts_are_written_is_not_read_as_either(
    lake: Callable[..., Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = lake("local", '["device", "ts"]')
    text = '{{"ts": {0}, "received": {0}, "device": "a", "temp": {1}, "count": 1}}\n'
    stream.land("a", text.format(T0, 1.0) + text.format(T0, 2.0))
    again = FileRecords.again

    def changed(*asked: Any) -> Any:
        stream.land("a", text.format(T0, 1.0) + text.format(T0 + 1, 2.0))
        return again(*asked)

    with monkeypatch.context() as patch:
        patch.setattr(FileRecords, "again", changed)
        with pytest.raises(SourceChanged, match="a is not what it was"):
            stream.ingest()
    assert stream.rows("raw", "batch") == []

    stream.ingest()

    assert (seen(stream)["accepted"], seen(stream)["quarantined"]) == (0, 1)
    assert stream.rows("quarantine", "source_file", "reason") == [("a", "unreadable_file")]


def test_what_is_kept_aside_while_rows_are_compared_is_deleted(lake: Callable[..., Lake]) -> None:
    stream = lake("local", '["device", "ts"]')
    text = '{{"ts": {0}, "received": {0}, "device": "a", "temp": {1}, "count": 1}}\n'
    stream.land("a", text.format(T0, 1.0) + text.format(T0, 1.0) + text.format(T0 + 1, 2.0))
    stream.ingest()
    left = [path.suffix for path in Path(stream.settings.layout.raw("readings")).glob("*") if path.is_file()]
    assert left == [".parquet"] and len(stream.rows("raw", "ts")) == 2

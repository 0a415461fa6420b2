"""Files in tasks: the same tables however they are cut into blocks and parts, and what is not the fault of a file."""

from __future__ import annotations

import errno
import gzip
import io
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.config.stream import Source
from lakehouse.ingest import batch_parts
from lakehouse.ingest.parser import parquet_rows
from lakehouse.ingest.sources import lines
from lakehouse.ingest.sources.manifest import LandedFile
from lakehouse.settings import load_settings
from tests.ingest.test_batch_jobs import T0, line
from tests.support.readings_lake import Lake

pytestmark = pytest.mark.spark
Make = Callable[..., Lake]
COLUMNS = {
    "raw": ("*",),
    "quarantine": ("*",),
    "ledger": (
        *("batch", "records", "received", "accepted", "quarantined", "duplicates", "reasons", "missing"),
        *("min_event_us", "max_event_us", "newest_us", "late", "lateness", "max_lateness_us"),
    ),
}


def ndjson(pick: random.Random, batch: int) -> dict[str, bytes]:
    """Return files of which, in the second batch, one is cut off and one is no gzip."""
    texts = [line(pick) for _ in range(40)]
    zipped = gzip.compress("".join([*texts[:3], line(pick)]).encode())
    files = {f"{batch}a": "".join(texts).encode(), f"{batch}b.gz": zipped[: -9 * (batch == 1) or None]}
    return files | ({"c.gz": b"not gzip"} if batch == 1 else {})


def csv(pick: random.Random, batch: int) -> dict[str, bytes]:
    return {f"{batch}{name}": _csv(pick).encode() for name in "ab"}


def _csv(pick: random.Random) -> str:
    texts = ["ts,received,device,temp,count"]
    for _ in range(40):
        second = pick.randrange(12)
        usual = f"{T0 + second},{T0},{pick.choice('ab')},{pick.randrange(2)}.5,{pick.choice(['1', '', 'x'])}"
        texts.append(pick.choice([usual] * 8 + [usual + ",more", usual.replace(".5", " .5"), "\u00fc"]))
    return "\n".join(texts) + "\n"


def parquet(pick: random.Random, batch: int) -> dict[str, bytes]:
    """Return files of two kinds, one with texts that are no number, and in the second batch two that are damaged."""
    files = {f"{batch}{name}": _parquet(pick, name == "b") for name in "abc"}
    return files | (
        {"d": files["1c"][:-20], "e": files["1c"][:300] + b"\0" * 60 + files["1c"][360:]}
        if batch == 1
        else {}
    )


def _parquet(pick: random.Random, is_text: bool) -> bytes:
    count = 40
    temps: list[Any] = [pick.choice([0.5, 1.5, None]) for _ in range(count)]
    columns = {
        "ts": pa.array([float(T0 + pick.randrange(12)) for _ in range(count)]),
        "received": pa.array([T0] * count),
        "device": pa.array([pick.choice(["a", "b", "\u00fc", None]) for _ in range(count)]),
        "temp": pa.array([pick.choice(["hot", "1.5", None]) for _ in range(count)] if is_text else temps),
        "count": pa.array([pick.choice([1, None]) for _ in range(count)], pa.int64()),
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=16)
    return sink.getvalue()


FILES = {"ndjson": ndjson, "csv": csv, "parquet": parquet}


@pytest.mark.parametrize("identity", ['["device", "ts"]', "[]"])
@pytest.mark.parametrize("file_format", FILES)
def test_files_that_are_cut_into_small_blocks_and_parts_leave_the_same_tables(
    lake: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str, identity: str
) -> None:
    whole = lake(file_format)
    config = tmp_path / "tidemark.toml"
    config.write_text(config.read_text().replace('identity = ["device", "ts"]', f"identity = {identity}"))
    whole, pieces = (Lake(whole.spark, load_settings(config, tmp_path / name)) for name in "ab")
    pick = random.Random(f"{file_format} {identity}")
    for batch in range(2):
        for name, content in FILES[file_format](pick, batch).items():
            whole.land(name, content)
        whole.ingest()
        with monkeypatch.context() as patch:
            patch.setattr(lines, "BATCH_LINES", 7)
            patch.setattr(parquet_rows, "_ROWS_AT_ONCE", 7)
            patch.setattr(batch_parts, "_PART_ROWS", 10)
            pieces.ingest()

    for table, columns in COLUMNS.items():
        assert pieces.rows(table, *columns) == whole.rows(table, *columns), table
    assert {reason for (reason,) in whole.rows("quarantine", "reason")} >= (
        {"conflict"} if identity != "[]" else {"bad_value"} if file_format != "csv" else {"malformed"}
    )


def test_rows_are_in_raw_in_processing_order(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, pick = lake(), random.Random(1)
    monkeypatch.setattr(lines, "BATCH_LINES", 7)
    for name in "ab":
        texts = [line(pick) for _ in range(40)]
        # Of two shapes, which are typed one after the other.
        texts[::3] = [text.replace(', "count": 1', "") for text in texts[::3]]
        stream.land(name, "".join(texts))
    stream.ingest()

    (raw,) = stream.settings.layout.raw("readings").rglob("*.parquet")
    places = pq.read_table(raw, columns=["source_file", "source_line"]).to_pylist()

    assert len(places) > 10
    assert places == sorted(places, key=lambda place: (place["source_file"], place["source_line"]))


@pytest.mark.parametrize("file_format", ["ndjson", "parquet"])
def test_a_conflict_is_in_quarantine_with_its_bytes(lake: Make, file_format: str) -> None:
    stream = lake(file_format)
    rows = [{"ts": T0, "received": T0, "device": "a", "temp": temp, "count": 1} for temp in (1.5, 2.5)]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    texts = [
        b'{"ts":%d,"received":%d,"device":"a","temp":%a,"count":1}' % (T0, T0, temp) for temp in (1.5, 2.5)
    ]
    stream.land("a", sink.getvalue() if file_format == "parquet" else b"\n".join(texts))
    stream.ingest()

    assert stream.rows("quarantine", "reason", "record", "source_line") == [("conflict", texts[1], 2)]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_without_room_for_an_object_is_not_its_fault(
    lake: Make, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    stream = lake("parquet")
    stream.land("a", _parquet(random.Random(0), False))

    def fetched() -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(parquet_rows, "is_remote", lambda _: True)
    monkeypatch.setattr(tempfile, "TemporaryFile", fetched)
    with pytest.raises(OSError, match=os.strerror(number)):
        stream.ingest()


def test_wide_rows_of_parquet_are_decoded_fewer_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Texts that the file holds once.
    texts = pa.table({"text": pa.array(["x" * 1000, "y"]).take(pa.array([0, 1] * 50))})
    pq.write_table(texts, tmp_path / "a")
    monkeypatch.setattr(parquet_rows, "_ROWS", 10)

    source = Source.model_validate({"path": f"{tmp_path}/*", "format": "parquet"})

    def sizes(most: int) -> list[int]:
        monkeypatch.setattr(parquet_rows, "_BYTES_AT_ONCE", most)
        blocks = parquet_rows._blocks(LandedFile("a", 0, 0), source)
        found = [rows for rows in blocks if isinstance(rows, pa.RecordBatch)]
        assert pa.Table.from_batches(found) == texts
        return [rows.num_rows for rows in found]

    assert sizes(10_000) == [20] * 5
    assert sizes(10**6) == [100]

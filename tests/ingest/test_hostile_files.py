"""Files that could stop a stream: each is read or rejected with its reason, and what lies beside it is taken in."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.killing import kill
from tests.support.readings_lake import Lake

pytestmark = pytest.mark.spark
Make = Callable[..., Lake]
T0 = 1_600_000_000
MB = 2**20


def reading(second: int) -> str:
    return f'{{"ts": {T0 + second}, "received": {T0}, "device": "a", "temp": 1.5, "count": 2}}\n'


def seconds(lake: Lake) -> list[int]:
    return [event // 10**6 - T0 for (event,) in lake.rows("raw", "event_us")]


def rejected(lake: Lake) -> list[tuple[Any, ...]]:
    found = lake.rows("quarantine", "source_file", "reason", "source_line", "record")
    return [(os.path.basename(path), reason, line, len(record)) for path, reason, line, record in found]


def test_lines_that_are_long_or_deep_and_files_of_odd_names_stop_nothing(lake: Make, tmp_path: Path) -> None:
    stream = lake()
    stream.land(
        "bomb.ndjson.gz", gzip.compress(reading(1).encode() + b"[" * 60 * MB + b"\n" + reading(2).encode())
    )
    stream.land("deep.ndjson", '{"a":' * 1100 + "1" + "}" * 1100 + "\n" + reading(3))
    stream.land("digits.ndjson", reading(4) + reading(4).replace("1.5", "1" * 100_000))
    stream.land("{a}[1]*?.ndjson", reading(5))
    stream.land("b+ %20.ndjson", reading(6))
    landing = tmp_path / "landing"
    (landing / os.fsdecode(b"\xff\\.ndjson")).write_text(reading(7))
    (landing / os.fsdecode(b"\xfe.ndjson")).write_text(reading(8))
    stream.land("\\xfe.ndjson", reading(9))
    (tmp_path / "secret").write_text(reading(10))
    (landing / "link.ndjson").symlink_to(tmp_path / "secret")
    (landing / "inner.ndjson").symlink_to(landing / "deep.ndjson")

    counts = stream.ingest()

    assert seconds(stream) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    names = [os.path.basename(path) for _, path in stream.rows("raw", "event_us", "source_file")]
    escaped = "".join(f"\\x{byte:02x}" for byte in b"\xfe.ndjson")
    assert names[-3:] == ["\\xff\\x5c.ndjson", escaped, "\\xfe.ndjson"]
    assert stream.ingest()["files"] == 0
    assert counts["received"] == counts["accepted"] + counts["quarantined"] + counts["duplicates"]
    assert rejected(stream) == [
        ("bomb.ndjson.gz", "too_long", 2, 64 * 1024),
        ("deep.ndjson", "malformed", 1, 6601),
        ("digits.ndjson", "bad_value", 2, len(reading(4)) + 100_000 - 4),
        ("inner.ndjson", "malformed", 1, 6601),
        ("link.ndjson", "unreadable_file", 0, 0),
    ]
    [(_, told)] = [row for row in stream.rows("quarantine", "source_file", "detail") if "link" in row[0]]
    assert "follow_links = true" in told


def test_a_file_that_is_gone_or_something_else_when_it_is_read_is_rejected_alone(
    lake: Make, tmp_path: Path
) -> None:
    stream = lake()
    stream.land("a.ndjson", reading(1))
    stream.land("b.ndjson", reading(2))
    for second, name in enumerate("cde", 3):
        stream.land(f"{name}.ndjson", reading(second))
    kill(stream.spark, "ingest.manifest-written", "jobs.ingest", "--config", str(tmp_path / "tidemark.toml"))
    for name in "acde":
        (tmp_path / "landing" / f"{name}.ndjson").unlink()
    (tmp_path / "secret").write_text(reading(10))
    (tmp_path / "landing" / "c.ndjson").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "landing" / "d.ndjson")
    (tmp_path / "landing" / "e.ndjson").mkdir()

    stream.ingest()

    assert seconds(stream) == [2]
    assert rejected(stream) == [(f"{name}.ndjson", "unreadable_file", 0, 0) for name in "acde"]


def test_parquet_files_are_read_by_their_own_types(lake: Make, tmp_path: Path) -> None:
    stream = lake("parquet")
    landing = tmp_path / "landing"
    landing.mkdir()
    columns = {"ts": [T0], "received": [T0], "device": ["a"], "temp": [1.5], "count": [1]}
    pq.write_table(pa.table(columns), landing / "a [1] +{x}%20.parquet")
    pq.write_table(pa.table(columns | {"ts": [T0 + 1], "temp": ["2.5"]}), landing / "b.parquet")
    pq.write_table(pa.table(columns | {"ts": [T0 + 2], "temp": [["no number"]]}), landing / "c.parquet")
    pq.write_table(pa.table(columns | {"ts": [T0 + 3]}), landing / "d.parquet")
    kill(stream.spark, "ingest.manifest-written", "jobs.ingest", "--config", str(tmp_path / "tidemark.toml"))
    (landing / "d.parquet").unlink()

    stream.ingest()

    assert stream.rows("raw", "event_us", "temp") == [(T0 * 10**6, 1.5), ((T0 + 1) * 10**6, 2.5)]
    assert stream.rows("raw", "source_file")[0] == ("a [1] +{x}%20.parquet",)
    assert [said[:2] for said in rejected(stream)] == [
        ("c.parquet", "bad_value"),
        ("d.parquet", "unreadable_file"),
    ]
    [(changes,)] = stream.rows("ledger", "schema_changes")
    assert "b.parquet: temp was double, is string" in changes

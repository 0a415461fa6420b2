from __future__ import annotations

import gzip
import json
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.checks import stream_problems
from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.files import landed
from lakehouse.ingest.sources.lines import parsed_file
from lakehouse.ingest.sources.manifest import Seen

GEO = {
    "type": "FeatureCollection",
    "features": [
        {"properties": {"at": "2026-02-01T00:00:00Z", "temp": 0.5}, "geometry": None},
        {"properties": {"at": "2026-02-01T01:00:00Z", "temp": 1.5}, "geometry": {"coordinates": [1, 2]}},
    ],
}


def stream_of(path: Path, **source: Any) -> Stream:
    table = {
        "name": "s",
        "source": {"path": str(path), "format": "json", **source},
        "event_time": {"column": "properties.at", "unit": "iso"},
        "columns": {"temp": {"path": "properties.temp", "type": "double"}},
        "levels": ["1d forever"],
    }
    stream = Stream.model_validate(table)
    assert stream_problems(stream) == []
    return stream


def rows(path: Path, **source: Any) -> list[tuple[int, Any, str | None]]:
    stream = stream_of(path, **source)
    file = landed(str(path), Seen(path.stat().st_size, 0), stream.source)
    parsed = [row for table in parsed_file(file, 0, Parser.of(stream, (None,))) for row in table.to_pylist()]
    return [
        (row["source_line"], row["temp"], row["reason"] and f"{row['reason']}: {row['detail']}")
        for row in parsed
    ]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["1.json", "1.json.gz"])
def test_the_features_of_a_document_are_rows(tmp_path: Path, indent: int | None, name: str) -> None:
    content = b"\xef\xbb\xbf" + json.dumps(GEO, indent=indent).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)

    assert rows(path, record_path="features") == [(1, 0.5, None), (2, 1.5, None)]


def test_a_document_that_breaks_off_keeps_the_records_before(tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    path.write_text(json.dumps(GEO)[:-70])

    (_, first, _), (_, _, second) = rows(path, record_path="features")

    assert first == 0.5
    assert second is not None and second.startswith("truncated_file: the JSON document ends inside a record")


def test_a_document_without_the_list_says_so(tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    path.write_text(json.dumps(GEO))

    [(_, _, reason)] = rows(path, record_path="data.features")

    assert reason is not None and "no object or list of them under 'data.features'" in reason


def test_a_record_that_is_too_long_is_rejected_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    long = {"properties": GEO["features"][0]["properties"], "text": "x" * 5000}  # type: ignore[index]
    path.write_text(json.dumps([long, GEO["features"][1]]))

    (_, _, first), (_, second, _) = rows(path, max_record_bytes=1000)

    assert first is not None and first.startswith("too_long:")
    assert second == 1.5


def test_a_large_document_needs_the_memory_of_some_blocks(tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    with path.open("w") as file:
        file.write("[")
        for number in range(40_000):
            file.write(f'{{"properties":{{"at":"2026-02-01","temp":{number}}},"text":"{"x" * 3000}"}},')
        file.write("{}]")
    stream = stream_of(path)
    seen = landed(str(path), Seen(path.stat().st_size, 0), stream.source)
    size, parser = path.stat().st_size, Parser.of(stream, (None,))

    tracemalloc.start()
    found = sum(table.num_rows for table in parsed_file(seen, 0, parser))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == 40_001
    assert size > 100_000_000 > peak


SHAPES = {"": ("[", "]"), "features": ('{"type":"FeatureCollection","features":[', "]}")}
SHAPES["data.rows"] = ('{"meta":{"rows":[0]},"data":{"rows":[', "]}}")
STATUS = Path("/proc/self/status")


def peak_of(path: Path, source: dict[str, str]) -> tuple[int, int, int]:
    """Return the rows of a file, and the most memory of this process before and after it has read them, in bytes."""
    small = path.with_suffix(".small.json")
    stream, counts, peaks = stream_of(path, **source), list[int](), list[int]()
    for each in (small, path):
        file = landed(str(each), Seen(each.stat().st_size, 0), stream.source)
        counts.append(sum(table.num_rows for table in parsed_file(file, 0, Parser.of(stream, (None,)))))
        [peak] = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        peaks.append(int(peak.split()[1]) * 1024)
    return counts[1], peaks[0], peaks[1]


def write_document(path: Path, shape: str, size: int) -> int:
    """Write a document of some size; return how many records it has."""
    begin, end = SHAPES[shape]
    record = f'{{"properties":{{"at":"2026-02-01T00:00:00Z","temp":1.5}},"text":"{"x" * 900}"}}'
    block = ",\n".join([record] * 1000)
    times = max(1, size // len(block))
    with path.open("w") as file:
        file.write(begin + block)
        file.writelines(f",\n{block}" for _ in range(times - 1))
        file.write(end)
    return 1000 * times


@pytest.mark.skipif(not STATUS.exists(), reason="no /proc to tell the most memory of a process")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "size", [pytest.param(10**8, marks=pytest.mark.slow), pytest.param(10**9, marks=pytest.mark.long)]
)
def test_a_process_that_reads_a_large_document_needs_little_more_than_for_a_small_one(
    tmp_path: Path, shape: str, size: int
) -> None:
    path = tmp_path / "a.json"
    write_document(tmp_path / "a.small.json", shape, 2 * 10**7)
    count = write_document(path, shape, size)

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found, before, after = pool.submit(peak_of, path, {"record_path": shape} if shape else {}).result()

    assert found == count
    assert after - before < 64 * 1024 * 1024


def test_a_path_to_records_belongs_to_documents() -> None:
    table = {
        "name": "s",
        "source": {"path": "x/*.ndjson", "format": "ndjson", "record_path": "features"},
        "event_time": {"column": "at", "unit": "iso"},
        "columns": {"temp": "double"},
        "levels": ["1d forever"],
    }

    [problem] = stream_problems(Stream.model_validate(table))

    assert "record_path" in str(problem) and 'format "json"' in str(problem)

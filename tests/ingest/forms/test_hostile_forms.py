"""Damaged and hostile files of forms that become JSON: none stops a stream, and each record is numbered once."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.config.presets import with_preset
from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.files import landed
from lakehouse.ingest.sources.landed_content import seen
from lakehouse.ingest.sources.lines import parsed_file
from tests.ingest.hostile import damaged, truncated
from tests.ingest.sources.test_logger_presets import CASES

NAMES = ("influx", "prometheus", "otlp", "nmea", "gpx", "green-button")


def rows(path: Path, preset: str, **source: Any) -> list[tuple[int, int, str | None]]:
    table = {"name": "s", "preset": preset, "source": {"path": str(path), **source}}
    stream = Stream.model_validate(with_preset(table))
    file = landed(str(path), seen(str(path)), stream.source)
    assert file.unreadable is None
    parser = Parser.of(stream, [None])
    found = pa.concat_tables([parser.schema.empty_table(), *parsed_file(file, 0, parser)])
    names = ("source_line", "source_item", "reason")
    return list(zip(*(found[name].to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("preset", NAMES)
def test_a_damaged_file_is_read_or_rejected_line_by_line(tmp_path: Path, preset: str) -> None:
    content = CASES[preset][1].encode()
    files = [*damaged(content, "", 30, seed=7), *truncated(content, "", step=max(1, len(content) // 20))]
    for name, each in files:
        (tmp_path / name).write_bytes(each + b"\n")

        found = rows(tmp_path / name, preset)

        places = [(line, item) for line, item, _ in found]
        assert places == sorted(set(places)), name
        assert len(places) <= each.count(b"\n") + 10, name


POINT = b'<trkpt lat="1" lon="2"><time>2026-02-01T00:00:00Z</time></trkpt>'
GPX = b"<gpx><trk><trkseg>"


@pytest.mark.parametrize(
    ("preset", "head", "bulk", "reasons"),
    [
        ("gpx", GPX + POINT + b"<trkpt><name>", b"x" * 1000, [None, "malformed"]),
        ("gpx", GPX + POINT + b"<!-- ", b"x" * 1000, [None, "malformed"]),
        ("influx", b'a f="1" 1769904000000000000\na f="', b"x" * 1000, [None, "too_long"]),
        ("prometheus", b'up 1 1769904000000\nup{a="', b"x" * 1000, [None, "too_long"]),
        ("otlp", b"", b"[" * 1000, ["too_long"]),
        ("nmea", b"$GPRMC,", b"," * 1000, ["too_long"]),
    ],
)
def test_a_bomb_is_rejected_in_bounded_memory(
    tmp_path: Path, preset: str, head: bytes, bulk: bytes, reasons: list[str | None]
) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(head + bulk * 50_000, 1))

    # What is imported and compiled once is no memory of the file's.
    (tmp_path / "small").write_bytes(head)
    rows(tmp_path / "small", preset)

    tracemalloc.start()
    found = rows(path, preset, max_record_bytes=1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert [reason for *_, reason in found] == reasons
    assert peak < 40_000_000


@pytest.mark.parametrize(
    ("lines", "expected"), [(10_000, [(10_002, None)]), (30_000, [(30_002, "missing_column")])]
)
def test_a_head_of_many_lines_is_looked_at_up_to_some(
    tmp_path: Path, lines: int, expected: list[tuple[int, str | None]]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("title\n" * lines + "at,v\n2026-02-01,1\n")
    table = {
        "name": "s",
        "source": {"path": str(path), "format": "csv", "header": {"skip_until": "^at,"}},
        "event_time": {"column": "at", "unit": "iso"},
        "columns": {"v": "double"},
        "levels": ["1d forever"],
    }
    stream = Stream.model_validate(table)
    file = landed(str(path), seen(str(path)), stream.source)

    found = pa.concat_tables(parsed_file(file, 0, Parser.of(stream, [file.fields])))

    assert list(zip(found["source_line"].to_pylist(), found["reason"].to_pylist(), strict=True)) == expected

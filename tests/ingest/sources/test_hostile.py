"""The decoders of hostile files, each by itself: none raises, each record is numbered once, and none takes long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.config.stream import Source
from lakehouse.ingest.sources.files import landed
from lakehouse.ingest.sources.heads import without_head
from lakehouse.ingest.sources.landed_content import blocks, seen
from lakehouse.ingest.sources.lines import numbered_lines
from lakehouse.ingest.sources.nfdump import without_remarks
from lakehouse.ingest.sources.packets import numbered_packets
from lakehouse.ingest.sources.zeek import without_headers
from tests.ingest import hostile

LONGEST = 1_000_000
BOMBS = ("zeros", "lines", "parts")


@pytest.mark.slow
@pytest.mark.parametrize("format", ["zeek", "nfdump", "pcap"])
def test_every_file_is_cut_into_records_that_are_numbered_once(tmp_path: Path, format: str) -> None:
    files = {
        name: content for name, content in getattr(hostile, format)().items() if not name.startswith(BOMBS)
    }
    source = Source.model_validate({"format": format, "path": str(tmp_path / "*")})
    assert len(files) >= 200
    for name, content in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        began = time.process_time()

        file = landed(str(path), seen(str(path)), source)
        found = [] if file.unreadable else records(path, format)

        numbers = [number for number, _, _ in found]
        assert numbers == sorted(set(numbers)) and min(numbers, default=1) >= 1, name
        assert all(record or fault for _, record, fault in found), name
        assert time.process_time() - began < 5, name


def nfdump_records(lines: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return without_remarks(without_head(lines, Source(path="x", format="nfdump")))


def records(path: Path, format: str) -> list[tuple[int, bytes, str | None]]:
    """All records of a file as its decoder yields them."""
    batches = (
        numbered_packets(str(path))
        if format == "pcap"
        else {"nfdump": nfdump_records, "zeek": without_headers}[format](
            numbered_lines(blocks(str(path)), LONGEST)
        )
    )
    return [row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)]

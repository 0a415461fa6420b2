"""Records of a Zeek log, and the header that each belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.ingest.sources import landed_content
from lakehouse.ingest.sources.landed_content import blocks
from lakehouse.ingest.sources.lines import numbered_lines
from lakehouse.ingest.sources.zeek import without_headers

LINES = st.sampled_from(
    [
        b"1.0\ta",
        b"2.0\tb",
        b'{"ts": 3.0}',
        b"#close",
        b"#fields\tts\tuid",
        b"#fields\tuid\tts",
        b"#types\ttime",
    ]
)
Records = list[tuple[int, bytes, str | None]]


def read(path: Path, lines: list[bytes]) -> Records:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    batches = without_headers(numbered_lines(blocks(str(path)), 1000))
    return [row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)]


def one_by_one(lines: list[bytes]) -> Records:
    """The yardstick: line after line."""
    first, header, at, found = None, None, 0, Records()
    for number, line in enumerate(lines, start=1):
        if line.startswith(b"#fields"):
            first, header, at = first or line, line, number
        elif not line.startswith(b"#"):
            is_other = header != first and not line.startswith(b"{")
            told = f"other_header: the header at line {at} names other fields than the first one of the file"
            found.append((number, line, told if is_other else None))
    return found


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(LINES, max_size=20), block=st.integers(1, 60))
def test_lines_behind_another_header_are_told_wherever_blocks_are_cut(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landed_content, "BLOCK_BYTES", block)
        assert read(tmp_path_factory.mktemp("zeek") / "conn.log", lines) == one_by_one(lines)


def test_a_line_that_has_a_fault_of_its_own_keeps_it(tmp_path: Path) -> None:
    lines = [b"#fields\ta\tb", b"#fields\tb\ta", b"x" * 2000, b"1\t2"]

    faults = [(fault or "").partition(":")[0] for _, _, fault in read(tmp_path / "conn.log", lines)]

    assert faults == ["too_long", "other_header"]

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config.stream import Source
from lakehouse.ingest.sources import compressed, landed_content
from lakehouse.ingest.sources import lines as cut
from lakehouse.ingest.sources.heads import without_head
from lakehouse.ingest.sources.landed_content import blocks

LINE = st.binary(max_size=12).map(
    lambda line: line.replace(b"\n", b"").replace(b"\r", b"").replace(b"\xef", b"")
)


def read(path: Path, skip_header: bool = False, longest: int = 1000) -> list[tuple[int, bytes, str | None]]:
    batches = cut.numbered_lines(blocks(str(path)), longest)
    batches = without_head(batches, Source(path=str(path), format="csv")) if skip_header else batches
    return [row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)]


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(LINE, max_size=30), end=st.sampled_from([b"\n", b"\r\n"]), last=st.booleans())
def test_every_line_that_is_not_blank_comes_with_its_number(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], end: bytes, last: bool
) -> None:
    path = tmp_path_factory.mktemp("split") / "lines.txt"
    path.write_bytes(end.join(lines) + (end if last else b""))

    found = read(path)

    expected = [(number, line, None) for number, line in enumerate(lines, start=1) if line.strip(b" \t")]
    assert found == expected


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_block_size_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    path = tmp_path / "lines.csv.gz"
    path.write_bytes(gzip.compress(b"head\na\n\nbb\r\nccc"))
    for module in (landed_content, compressed):
        monkeypatch.setattr(module, "BLOCK_BYTES", block * 8)

    assert read(path, skip_header=True) == [(2, b"a", None), (4, b"bb", None), (5, b"ccc", None)]


def test_byte_order_mark_is_not_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "bom.csv"
    path.write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    assert read(path)[0] == (1, b"a,b", None)


def test_cut_off_gzip_gives_what_can_be_read_and_one_faulty_record(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"line %d\n" % n for n in range(5000)))
    path = tmp_path / "cut.gz"
    path.write_bytes(whole[: len(whole) // 2])

    found = read(path)

    good = [record for _, record, fault in found if fault is None]
    assert good == [b"line %d" % n for n in range(len(good))] and len(good) > 1000
    assert [fault for _, _, fault in found if fault] == ["truncated_file: the gzip stream ends too early"]


def test_gzip_members_one_after_the_other_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "two.gz"
    path.write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\nd\n"))
    assert [record for _, record, _ in read(path)] == [b"a", b"bc", b"d"]


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.integers(0, 40), max_size=12),
    longest=st.integers(1, 30),
    block=st.integers(1, 20),
    is_zipped=st.booleans(),
)
def test_a_line_that_is_too_long_is_one_rejected_record_and_the_others_are_read(
    tmp_path_factory: pytest.TempPathFactory, lines: list[int], longest: int, block: int, is_zipped: bool
) -> None:
    content = b"\n".join(b"x" * size for size in lines)
    path = tmp_path_factory.mktemp("long") / ("lines.gz" if is_zipped else "lines.txt")
    path.write_bytes(gzip.compress(content) if is_zipped else content)

    with pytest.MonkeyPatch.context() as small:
        for module in (landed_content, compressed):
            small.setattr(module, "BLOCK_BYTES", block * 8)
        small.setattr(cut, "KEPT_BYTES", 5)
        found = read(path, longest=longest)

    assert [(number, record) for number, record, _ in found] == [
        (number, b"x" * (size if size <= longest else min(size, 5)))
        for number, size in enumerate(lines, start=1)
        if size
    ]
    for number, _, fault in found:
        size = lines[number - 1]
        assert (fault is None) == (size <= longest)
        assert fault is None or fault.startswith(f"too_long: the line has {size} bytes")


@pytest.mark.slow
def test_what_inflates_a_thousandfold_needs_the_memory_of_some_blocks(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    squeezed = zlib.compressobj(9, wbits=31)
    path.write_bytes(b"".join(squeezed.compress(b"0" * 2**20) for _ in range(300)) + squeezed.flush())
    assert path.stat().st_size < 400_000

    tracemalloc.start()
    found = read(path, longest=2**20)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    (number, record, fault) = found[0]
    assert (len(found), number, record) == (1, 1, b"0" * cut.KEPT_BYTES)
    assert fault is not None and fault.startswith(f"too_long: the line has {300 * 2**20} bytes")
    assert most < 8 * compressed.BLOCK_BYTES


def test_a_hundred_thousand_empty_members_and_padding_hold_nothing(tmp_path: Path) -> None:
    path, empty = tmp_path / "empty.gz", gzip.compress(b"")
    path.write_bytes(empty * 100_000 + gzip.compress(b"a\n") + b"\0" * 1000 + gzip.compress(b"b\n"))

    assert [record for _, record, _ in read(path)] == [b"a", b"b"]

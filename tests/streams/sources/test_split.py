from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.streams.sources import split

LINE = st.binary(max_size=12).map(
    lambda line: line.replace(b"\n", b"").replace(b"\r", b"").replace(b"\xef", b"")
)


def read(
    path: Path, skip_header: bool = False, skip_hash: bool = False
) -> list[tuple[int, bytes, str | None]]:
    batches = split.numbered_lines(str(path), skip_header, skip_hash)
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
    monkeypatch.setattr(split, "BLOCK_BYTES", block * 8)

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


def test_zeek_comments_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "conn.log"
    path.write_bytes(b"#fields\tts\n1.0\n#close\n")
    assert read(path, skip_hash=True) == [(2, b"1.0", None)]

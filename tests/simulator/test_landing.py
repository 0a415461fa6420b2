from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.simulator.landing import next_number, write_file


def test_nothing_is_in_the_folder_before_the_file_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "landing" / "flows"
    seen: list[list[Path]] = []

    def pieces() -> Iterator[bytes]:
        for piece in (b"one\n", b"two\n"):
            seen.append(list(folder.iterdir()))
            yield piece

    write_file(folder, "flows-000001.csv", pieces())

    assert seen == [[], []]
    assert (folder / "flows-000001.csv").read_bytes() == b"one\ntwo\n"


def test_a_file_that_breaks_off_never_lands(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"one\n"
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        write_file(tmp_path / "flows", "flows-000001.csv", pieces())

    assert list((tmp_path / "flows").iterdir()) == []


def test_a_gz_file_has_the_same_bytes_at_any_time(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "x.csv.gz", [b"one\n"])
    write_file(tmp_path / "b", "x.csv.gz", [b"one\n"])

    content = (tmp_path / "a" / "x.csv.gz").read_bytes()
    assert gzip.decompress(content) == b"one\n"
    assert content == (tmp_path / "b" / "x.csv.gz").read_bytes()


def test_numbers_go_on_above_every_file_of_the_stream(tmp_path: Path) -> None:
    for name in ("flows-000002.csv", "flows-000011.csv.gz", "flows-old.csv", "telemetry-000044.ndjson"):
        (tmp_path / name).touch()

    assert next_number(tmp_path, "flows") == 12
    assert next_number(tmp_path / "none", "flows") == 1

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from lakehouse.storage.atomic_files import discard_drafts, read_once, replacing, write_json, write_text


def test_a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    write_json(path, {"at": tmp_path})
    write_text(path, "ä", durable=True, mode=0o600)

    assert path.read_text("utf-8") == "ä"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["a.json"]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_text(path, "before")

    with pytest.raises(ZeroDivisionError), replacing(path, beside=tmp_path / "elsewhere") as file:
        file.write(b"half")
        raise ZeroDivisionError

    assert path.read_text() == "before"


def test_drafts_of_writers_that_died_go_and_those_of_others_stay(tmp_path: Path) -> None:
    dead, alive = tmp_path / ".manifest.json.host.1", tmp_path / ".manifest.json.host.2"
    lease = tmp_path / ".suspects.json.lease"
    for path in (dead, alive, lease, tmp_path / "manifest.json"):
        path.touch()
    for path in (dead, lease):
        os.utime(path, (time.time() - 7200,) * 2)

    discard_drafts(tmp_path)
    discard_drafts(tmp_path / "not there")

    assert sorted(path.name for path in tmp_path.iterdir()) == [alive.name, lease.name, "manifest.json"]


def test_what_was_read_of_a_file_holds_until_another_is_in_its_place(tmp_path: Path) -> None:
    reads = []

    @read_once(2, most_bytes=5)
    def first(path: Path, length: int) -> str:
        reads.append(path.name)
        return path.read_text("utf-8")[:length]

    file = tmp_path / "file"
    write_text(file, "old")
    assert [first(file, 2), first(file, 2), first(file, 1)] == ["ol", "ol", "o"]
    assert len(reads) == 2

    write_text(file, "new")
    assert [first(file, 2), first(file, 2)] == ["ne", "ne"]
    assert len(reads) == 3

    write_text(file, "larger")
    assert [first(file, 2), first(file, 2)] == ["la", "la"]
    assert len(reads) == 5

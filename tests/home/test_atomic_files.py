from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lakehouse.home.atomic_files import replacing, write_json, write_text


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

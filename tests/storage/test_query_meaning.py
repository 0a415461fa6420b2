from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.storage.query_meaning import (
    QueryChanged,
    meanings,
    read_definition,
    replace_definition,
    require_same,
)


def test_another_meaning_is_refused_and_the_same_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "q"
    require_same(folder, "q", "a JOIN b", "SELECT b")
    require_same(folder, "q", "a JOIN b", "SELECT  b")

    with pytest.raises(QueryChanged, match=r"it was SELECT b, it is SELECT c now; .*--forget q"):
        require_same(folder, "q", "a JOIN c", "SELECT c")
    with pytest.raises(QueryChanged, match=r"it was a JOIN b, it is a JOIN c now; .*--forget q"):
        require_same(folder, "q", "a JOIN c", "SELECT b")
    assert read_definition(folder) == "a JOIN b"


def test_a_home_that_has_no_statements_yet_is_valid_and_gets_them(tmp_path: Path) -> None:
    folder = tmp_path / "q"
    replace_definition(folder, "a JOIN b", "SELECT b")
    (folder / "statement").unlink()

    assert meanings(folder, "a JOIN c", "SELECT c") == ("a JOIN b", "a JOIN c")
    require_same(folder, "q", "a JOIN b", "SELECT b")
    assert meanings(folder, "a JOIN c", "SELECT c") == ("SELECT b", "SELECT c")

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.storage.layout import Home
from lakehouse.storage.query_meaning import (
    QueryChanged,
    read_definition,
    require_same,
)


def test_another_meaning_is_refused_and_the_same_is_not(tmp_path: Path) -> None:
    folder = Home(tmp_path).batch_manifests("q")
    require_same(folder, "q", "a JOIN b", "SELECT b")
    require_same(folder, "q", "a JOIN b", "SELECT  b")

    with pytest.raises(QueryChanged, match=r"it was SELECT b, it is SELECT c now; .*--forget q"):
        require_same(folder, "q", "a JOIN c", "SELECT c")
    with pytest.raises(QueryChanged, match=r"it was a JOIN b, it is a JOIN c now; .*--forget q"):
        require_same(folder, "q", "a JOIN c", "SELECT b")
    assert read_definition(folder) == "a JOIN b"

"""Where workers keep compiled kernels, and which versions of the code leave."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lakehouse.spark.kernel_cache import KEPT_DAYS, ArchivedKernels

DAY_S = 86_400
SOURCE = "/srv/spark/app-1/tidemark-{version:016x}.zip/lakehouse/algorithms/rollup/fold.py"


def _kernel() -> None:
    pass


def _place(version: int) -> Path:
    found = ArchivedKernels.from_function(_kernel, SOURCE.format(version=version))
    assert found is not None
    return Path(found.get_cache_path())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tidemark" / "kernels"


def test_a_version_has_a_folder_whatever_the_application(cache: Path) -> None:
    place = _place(1)

    assert place == cache / "tidemark-0000000000000001" / "lakehouse.algorithms.rollup.fold"
    assert place.is_dir()
    assert ArchivedKernels.from_function(_kernel, "/home/me/lakehouse/algorithms/rollup/fold.py") is None


def test_a_new_version_removes_those_that_none_has_used_for_long(cache: Path) -> None:
    old, used, recent = (_place(version) for version in (1, 2, 3))
    (old / "fold.nbc").write_bytes(b"compiled")
    long_ago = time.time() - (KEPT_DAYS + 1) * DAY_S
    for place in (old, used):
        os.utime(place.parent, (long_ago, long_ago))
    assert _place(2) == used

    _place(4)

    assert sorted(place.name[-1] for place in cache.iterdir()) == ["2", "3", "4"]
    assert not old.exists() and recent.is_dir()


def test_nothing_else_is_removed(cache: Path) -> None:
    other = cache / "notes"
    other.mkdir(parents=True)
    os.utime(other, (0, 0))

    _place(1)

    assert other.is_dir()

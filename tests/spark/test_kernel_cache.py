"""Place of compiled kernels on workers, and removal of other versions of the code."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lakehouse.spark import kernel_cache
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
    monkeypatch.setattr(kernel_cache, "_root", kernel_cache._root.__wrapped__)
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


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_write_to_is_not_read(cache: Path, mode: int) -> None:
    cache.mkdir(parents=True)
    cache.chmod(mode)

    assert cache not in _place(1).parents


def test_a_link_to_another_folder_is_not_followed(cache: Path, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    cache.parent.mkdir()
    cache.symlink_to(planted)

    assert planted not in _place(1).resolve().parents


def test_what_stands_in_for_the_cache_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    monkeypatch.setattr(kernel_cache, "_root", kernel_cache._root.__wrapped__)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    root = _place(1).parents[1]

    assert root.parent == tmp_path and root.stat().st_mode & 0o077 == 0

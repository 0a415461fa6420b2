"""Copies of the index of identities on a store, as the workers of a cluster fetch them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lakehouse.storage.identity_copies import copied, fetched
from lakehouse.storage.identity_index import IdentityIndex, find_in
from lakehouse.storage.stores.store_path import StorePath
from tests.storage.stores.test_store_path import ROOT
from tests.storage.stores.test_store_path import store as store

pytestmark = pytest.mark.slow


@pytest.fixture
def index(tmp_path: Path, store: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityIndex]:
    """An index of three batches; workers have a temporary folder of their own."""
    del store
    (tmp_path / "worker").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "worker"))
    found = IdentityIndex(tmp_path / "identities", "columns", 4)
    for batch in (1, 2, 3):
        found.add_batch(
            batch, [np.array(range(batch, 40, batch), np.uint64)], len(range(batch, 40, batch)), (0, 9)
        )
    yield found


def test_a_worker_finds_in_copies_what_the_driver_finds_in_the_index(index: IdentityIndex) -> None:
    wanted = np.array(range(0, 50, 3), np.uint64)
    copies = copied(index.runs(), StorePath(ROOT) / "identities" / "readings")

    here, there = find_in(index.runs(), wanted, 5, 6), find_in(fetched(copies), wanted, 5, 6)

    assert [each.tolist() for each in here] == [each.tolist() for each in there] and len(here[0]) > 20
    assert find_in(fetched(copies), wanted, 10, 11)[0].tolist() == []


def test_a_worker_fetches_into_no_folder_that_others_may_have_made(
    index: IdentityIndex, tmp_path: Path
) -> None:
    copies = copied(index.runs(), StorePath(ROOT) / "identities" / "private")
    [run, *_] = fetched(copies)
    folder = Path(run.path).parent
    folders = folder, folder.parent
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700, 0o700]

    for folder in folders:
        folder.chmod(0o777)
        with pytest.raises(PermissionError, match="others can write to it: remove it"):
            fetched(copies)
        folder.chmod(0o700)
    folders[1].rename(tmp_path / "elsewhere")
    folders[1].symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="is a link"):
        fetched(copies)


def test_copies_and_fetched_files_of_runs_that_were_merged_are_deleted(
    index: IdentityIndex, tmp_path: Path
) -> None:
    folder = StorePath(ROOT) / "identities" / "merged"
    fetched(copied(index.runs(), folder))
    whole = IdentityIndex(tmp_path / "other", "columns", 4)
    whole.add_batch(1, [np.array(range(9), np.uint64)], 9, (0, 9))

    runs = fetched(copied(whole.runs(), folder))

    assert [path.name for path in folder.glob("*")] == [run.path.name for run in whole.runs()]
    assert [path.name for path in runs[0].path.parent.iterdir()] == [runs[0].path.name]

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.storage import identity_index
from lakehouse.storage.identity_index import FAN, IdentityIndex, find_in

# Per batch: its hashes, and what happens before the next one.
BATCHES = st.lists(
    st.tuples(
        st.lists(st.integers(0, 40), max_size=6),
        st.sampled_from(["nothing", "merge", "lose a file", "cut a file", "redeclare", "die and run again"]),
    ),
    min_size=1,
    max_size=40,
)


@pytest.fixture(autouse=True, scope="module")
def unsynced() -> Iterator[None]:
    """No power is cut here, and waiting for the disk takes most of the time."""
    with patch("os.fsync"):
        yield


def add(index: IdentityIndex, batch: int, hashes: list[int], last: int | None = None) -> None:
    values = np.array(hashes, np.uint64)
    batches = np.full(len(values), batch, np.uint32)
    index.add(batch, last or batch, values, batches, (batch * 10, batch * 10 + 9))


@settings(deadline=None)
@given(batches=BATCHES)
def test_an_index_finds_what_a_dictionary_finds_whatever_is_lost_of_it(
    batches: list[tuple[list[int], str]],
) -> None:
    with TemporaryDirectory() as name:
        folder, held, definition = Path(name), defaultdict[int, set[int]](set), "a"
        for batch, (hashes, event) in enumerate(batches, start=1):
            index = IdentityIndex(folder, definition, batch)
            for first, last in index.missing():
                for lacking in range(first, last + 1):
                    add(index, lacking, [value for value in held if lacking in held[value]])
            wanted = np.arange(41, dtype=np.uint64)
            found = set(
                zip(*(part.tolist() for part in find_in(index.runs(), wanted, 0, 10**6)), strict=True)
            )
            assert found == {(value, each) for value, seen in held.items() for each in seen}
            assert index.missing() == []
            definition = befall(event, index, folder, definition)
            add(IdentityIndex(folder, definition, batch), batch, hashes)
            if event == "die and run again":
                add(IdentityIndex(folder, definition, batch), batch, hashes)
            for value in hashes:
                held[value].add(batch)


def befall(event: str, index: IdentityIndex, folder: Path, definition: str) -> str:
    files = sorted(folder.glob("*"))
    if event == "merge":
        index.merge()
    if event == "lose a file" and files:
        files[len(files) // 2].unlink()
    if event == "cut a file" and files:
        files[0].write_bytes(files[0].read_bytes()[:-1])
    return definition + "a" if event == "redeclare" else definition


def test_runs_grow_with_the_logarithm_of_the_batches(tmp_path: Path) -> None:
    for batch in range(1, 400):
        index = IdentityIndex(tmp_path, "a", batch)
        index.merge()
        add(index, batch, [batch] * 100)

    assert len(list(tmp_path.iterdir())) < 3 * FAN
    assert IdentityIndex(tmp_path, "a", 400).missing() == []


def test_a_large_batch_between_small_ones_does_not_keep_them_apart(tmp_path: Path) -> None:
    for batch in range(1, 200):
        index = IdentityIndex(tmp_path, "a", batch)
        index.merge()
        add(index, batch, [batch] * (1 if batch % 2 else 20_000))

    assert len(list(tmp_path.iterdir())) < 5 * FAN


def test_large_runs_are_left_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity_index, "LARGE", 10)
    for batch in range(1, 3 * FAN):
        index = IdentityIndex(tmp_path, "a", batch)
        index.merge()
        add(index, batch, [batch] * 10)

    assert len(list(tmp_path.iterdir())) == 3 * FAN - 1


def test_runs_far_away_in_time_are_not_searched_and_old_ones_are_forgotten(tmp_path: Path) -> None:
    index = IdentityIndex(tmp_path, "a", 9)
    add(index, 1, [5])
    add(index, 2, [5])

    assert find_in(index.runs(), np.array([5], np.uint64), 15, 19)[1].tolist() == [1]
    index.forget(20, through=0)
    assert len(find_in(index.runs(), np.array([5], np.uint64), 0, 99)[1]) == 2
    index.forget(20, through=8)
    assert find_in(index.runs(), np.array([5], np.uint64), 0, 99)[1].tolist() == [2]
    assert IdentityIndex(tmp_path, "a", 3).missing() == []


def test_what_was_added_for_a_batch_that_never_finished_says_nothing(tmp_path: Path) -> None:
    """Messages that were lost are given up: their batch number then stands for other rows."""
    add(IdentityIndex(tmp_path, "a", 1), 1, [5])
    add(IdentityIndex(tmp_path, "a", 2), 2, [6])

    again = IdentityIndex(tmp_path, "a", 2)

    assert find_in(again.runs(), np.array([5, 6], np.uint64), 0, 99)[0].tolist() == [5]
    assert len(list(tmp_path.iterdir())) == 1

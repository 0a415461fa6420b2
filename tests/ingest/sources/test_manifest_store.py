"""Folded manifests answer as those that are not: which files and messages were read, and which columns came when."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config.stream import Source
from lakehouse.ingest.sources.manifest import Manifest, OffsetRange
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.crashpoint import FOLDING_POINTS, SPLIT_POINTS
from lakehouse.storage.folded_file import RECENT, FoldedDamaged

ID = "cotmujI_SuCbmLd1Pj57BQ"
KILLED = """
import sys
from pathlib import Path
from lakehouse.ingest.sources.manifest_store import ManifestStore
store = ManifestStore(Path(sys.argv[1]))
store.fold(store.last_batch)
"""


def source(folder: Path) -> Source:
    return Source.model_validate({"path": f"{folder}/*.csv", "format": "csv", "settle": 0, "batch_files": 2})


def land(folder: Path, names: str, header: str = "time,temp") -> None:
    for name in names:
        (folder / f"{name}.csv").write_text(f"{header}\n1,2\n")


def long_ago(folder: Path, store: ManifestStore) -> None:
    """Put as many batches behind those there are as stay unfolded."""
    for _ in range(RECENT):
        store.add_ranges([()])


def shown(store: ManifestStore, source: Source, folder: Path) -> tuple[object, ...]:
    """What can be asked of a landing, whether its manifests are folded or not."""
    paths = [path.name for path in sorted(folder.glob("*.csv"))]
    files = sorted((each.path, each.size, each.fields, dict(each.columns)) for each in store.files_of(paths))
    new = [path for path, _ in store.new_files(source)]
    return (
        store.last_batch,
        store.missing,
        new,
        store.changed_files,
        files,
        store.read_until(),
    )


# What comes in: files with these columns, or changed; messages, read or lost; a requeue.
arrivals = st.one_of(
    st.tuples(st.just("files"), st.sampled_from(["time,temp", "time,temp,room", "time", "temp"])),
    st.tuples(st.just("change"), st.integers(0, 5)),
    st.tuples(st.sampled_from(["kafka", "lost", "requeue", "fold"]), st.none()),
)


@given(st.lists(arrivals, max_size=25))
@settings(max_examples=60, deadline=None)
def test_folded_at_any_time_a_landing_says_what_one_says_that_never_was(
    steps: list[tuple[str, object]],
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakehouse.ingest.sources.manifest_store.RECENT", 2)
        folder = Path(name)
        asked = source(folder)
        for number, step in enumerate(steps):
            stores = [ManifestStore(folder / "folded"), ManifestStore(folder / "kept")]
            _take(step, number, stores, folder)
            for store in stores:
                store.add_files(asked)
        one, other = ManifestStore(folder / "folded"), ManifestStore(folder / "kept")
        land(folder, "z", "time,new")

        assert shown(one, asked, folder) == shown(other, asked, folder)
        assert one.add_files(asked) == other.add_files(asked) == 1
        assert one.manifests[-1] == other.manifests[-1]
        few = [manifest for manifest in one.manifests if manifest.kind in ("lost", "requeue")]
        assert few == [manifest for manifest in other.manifests if manifest.kind in ("lost", "requeue")]


def _take(step: tuple[str, object], number: int, stores: list[ManifestStore], folder: Path) -> None:
    kind, what = step
    if kind == "files":
        land(folder, f"{number:02d}"[-1] + "abc"[number % 3], str(what))
    if kind == "change" and (read := sorted(folder.glob("*.csv"))):
        read[number % len(read)].write_text("time,temp\n" + "1,2\n" * 7)
    given = (OffsetRange("t", number % 3, 5 * number, 5 * number + 5, ID),)
    for store in stores:
        if kind == "kafka":
            store.add_ranges([given])
        if kind == "lost":
            store.give_up(given, store.last_batch + 1)
        if kind == "requeue":
            store.add_requeue(("bad_number",))
    if kind == "fold":
        stores[0].fold(stores[0].last_batch)


def test_old_manifests_are_one_file_and_a_file_read_long_ago_is_not_read_again(tmp_path: Path) -> None:
    land(tmp_path, "abcd")
    store = ManifestStore(tmp_path / "landing")
    store.add_files(source(tmp_path))
    store.add_requeue(())
    long_ago(tmp_path, store)

    assert store.fold(store.last_batch) == 2

    left = sorted(path.name for path in store.folder.glob("*.json"))
    # A requeue is needed to tell what is open in quarantine.
    assert (left[0], len(left)) == ("00000003.json", RECENT + 1)
    for each in (store, ManifestStore(store.folder)):
        assert (each.add_files(source(tmp_path)), each.fold(each.last_batch)) == (0, 0)
    assert [file.fields for file in store.files_of(["c.csv"])] == [("time", "temp")]


def test_columns_are_compared_with_those_of_files_long_ago(tmp_path: Path) -> None:
    land(tmp_path, "a", "time,temp,room")
    store = ManifestStore(tmp_path / "landing")
    store.add_files(source(tmp_path))
    land(tmp_path, "b", "time,temp")
    store.add_files(source(tmp_path))
    long_ago(tmp_path, store)
    assert store.fold(store.last_batch) == 2

    land(tmp_path, "c", "time,room,floor")
    store.add_files(source(tmp_path))

    assert store.manifests[-1].schema_changes == ("c.csv: gained floor", "c.csv: lost temp")


def test_manifests_of_unfinished_batches_are_not_folded(tmp_path: Path) -> None:
    store = ManifestStore(tmp_path)
    store.add_ranges([()] * (RECENT + 5))

    assert store.fold(finished=RECENT + 2) == 2
    assert ManifestStore(tmp_path).behind(RECENT + 2) == [Manifest(RECENT + n, "kafka") for n in (3, 4, 5)]


def test_killed_in_the_midst_of_folding_nothing_counts_twice(tmp_path: Path) -> None:
    land(tmp_path, "abcd")
    store = ManifestStore(tmp_path / "landing")
    store.add_files(source(tmp_path))
    long_ago(tmp_path, store)
    before = shown(store, source(tmp_path), tmp_path)
    [point] = FOLDING_POINTS
    environment = os.environ | {"TIDEMARK_CRASH_AT": point}

    ended = subprocess.run([sys.executable, "-c", KILLED, str(store.folder)], env=environment, check=False)

    assert ended.returncode == -signal.SIGKILL
    assert len(list(store.folder.glob("*.json"))) == RECENT + 2
    again = ManifestStore(store.folder)
    assert shown(again, source(tmp_path), tmp_path) == before
    assert again.fold(again.last_batch) == 0
    assert len(list(store.folder.glob("*.json"))) == RECENT
    assert shown(ManifestStore(store.folder), source(tmp_path), tmp_path) == before


def test_a_manifest_that_is_gone_is_missed_and_what_was_folded_too(tmp_path: Path) -> None:
    store = ManifestStore(tmp_path)
    store.add_ranges([()] * (RECENT + 5))
    shutil.copytree(tmp_path, tmp_path / "copy")
    (tmp_path / "copy" / "00000002.json").unlink()
    store.fold(store.last_batch)
    (tmp_path / "folded.sqlite").unlink()

    assert ManifestStore(tmp_path).missing == 1
    (tmp_path / "folded.sqlite").write_bytes(b"rubbish" * 99)
    with pytest.raises(FoldedDamaged, match=r"folded\.sqlite: file is not a database: restore that file"):
        ManifestStore(tmp_path)
    gapped = ManifestStore(tmp_path / "copy")
    assert (gapped.missing, gapped.fold(gapped.last_batch)) == (2, 0)


HALVED = """
import sys
from dataclasses import replace
from pathlib import Path
from lakehouse.ingest.sources.manifest import halves
from lakehouse.ingest.sources.manifest_store import ManifestStore
store = ManifestStore(Path(sys.argv[1]))
store.put_in_place(replace(store.manifests[1], kind="split", files=()), *halves(store.manifests[1]))
"""


@pytest.mark.parametrize("point", [SPLIT_POINTS[0], *(f"ingest.manifest-written:{n}" for n in (1, 3))])
def test_killed_in_the_midst_of_a_split_each_file_is_in_one_manifest(tmp_path: Path, point: str) -> None:
    land(tmp_path, "abcdefg")
    files = source(tmp_path)
    store = ManifestStore(tmp_path / "manifests")
    store.add_files(files)
    environment = os.environ | {"TIDEMARK_CRASH_AT": point}

    ended = subprocess.run([sys.executable, "-c", HALVED, str(store.folder)], env=environment, check=False)

    assert ended.returncode == -signal.SIGKILL
    again = ManifestStore(store.folder)
    again.add_files(files)
    assert sorted(os.path.basename(f.path)[0] for m in again.manifests for f in m.files) == list("abcdefg")
    assert again.missing is None

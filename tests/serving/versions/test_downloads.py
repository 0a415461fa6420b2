"""Versions that are published on an object store, and read on machines that share nothing else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from lakehouse.serving.versions.downloads import download_current, hold_downloaded, kept_versions, look
from lakehouse.serving.versions.store_versions import (
    PublishedMeanwhile,
    drop,
    listed,
    stored_versions,
    upload,
)
from lakehouse.serving.versions.versions import (
    VersionGone,
    current_version,
    segment_path,
    segments_of,
    versions,
)
from lakehouse.storage.layout import Home
from lakehouse.storage.stores import store_access
from lakehouse.storage.stores.store_access import StoreUnavailable
from lakehouse.storage.stores.store_path import StorePath
from tests.support.stores.s3 import BUCKET, S3, named

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    with named() as server:
        yield server


@pytest.fixture
def there(store: S3, tmp_path: Path, request: pytest.FixtureRequest) -> StorePath:
    """Where the versions of this test's home are on the store."""
    found = machine(tmp_path, "publisher", request.node.name).published
    assert found is not None
    return found


def machine(folder: Path, name: str, home: str) -> Home:
    """Return the home of a machine of its own, which has its tables on the store."""
    (folder / name / "serving").mkdir(parents=True, exist_ok=True)
    return Home(folder / name, f"s3://{BUCKET}/{home}")


def published(folder: Path, there: StorePath, version: int, segments: dict[str, str]) -> None:
    """Publish a version whose own file, and new segments, say what they are."""
    parts = {}
    for name, told in {"": f"version {version}", **segments}.items():
        parts[name] = folder.parent / f"{name or 'own'}.draft"
        parts[name].unlink(missing_ok=True)
        with duckdb.connect(str(parts[name])) as made:
            made.execute(f"CREATE TABLE told AS SELECT '{told}' AS told")
    upload(there, folder, version, parts.pop(""), parts)


def noting(done: Callable[..., None], moved: list[str]) -> Callable[..., None]:
    """Return a way to move an object that notes of which version it is."""

    def noted(place: StorePath, *how: object) -> None:
        moved.append(place.name[:8])
        done(place, *how)

    return noted


def told(path: Path) -> str:
    with duckdb.connect(str(path), read_only=True) as opened:
        return str(opened.execute("FROM told").fetchall()[0][0])


def test_another_machine_reads_what_was_published_and_fetches_what_versions_share_once(
    store: S3,
    there: StorePath,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publisher, reader = tmp_path / "publisher" / "serving", machine(tmp_path, "reader", request.node.name)
    moved: list[str] = []
    for name in ("upload", "download"):
        monkeypatch.setattr(StorePath, name, noting(getattr(StorePath, name), moved))

    published(publisher, there, 1, {"00000001": "one"})
    with hold_downloaded(reader) as held:
        assert (held.version, told(held.path)) == (1, "version 1")
        published(publisher, there, 2, {"00000001": "one", "00000002": "two"})
        download_current(reader.serving, there)

    assert current_version(reader.serving) == 2
    assert segments_of(reader.serving / "00000002.duckdb") == ["00000001", "00000002"]
    assert (
        told(segment_path(reader.serving, "00000001")) == "one"
        and told(segment_path(reader.serving, "00000002")) == "two"
    )
    # Own file and segment of each, and of the second version not the segment that the first has.
    assert moved == ["00000001"] * 4 + ["00000002"] * 4
    download_current(reader.serving, there)
    assert len(moved) == 8


def test_of_two_publishers_of_one_number_one_succeeds(
    there: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "publisher" / "serving"
    published(folder, there, 1, {})

    with pytest.raises(PublishedMeanwhile, match="run it again"):
        published(folder, there, 1, {})
    # Nor does one that is as far when the other has not published yet.
    monkeypatch.setattr("lakehouse.serving.versions.store_versions.stored_versions", lambda _: [])
    with pytest.raises(PublishedMeanwhile, match="run it again"):
        published(folder, there, 1, {})
    monkeypatch.undo()
    assert stored_versions(there) == [1]


def test_what_is_kept_no_longer_goes_from_the_store_and_from_caches_but_for_what_is_read(
    store: S3,
    there: StorePath,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publisher, reader = tmp_path / "publisher" / "serving", machine(tmp_path, "reader", request.node.name)
    published(publisher, there, 1, {"00000001": "one"})
    held = hold_downloaded(reader)
    for version in (2, 3):
        published(publisher, there, version, {f"{version:08d}": str(version)})

    drop(there, 1)
    # Whoever has just seen the second one can still fetch it.
    assert stored_versions(there) == [1, 2, 3]
    with hold_downloaded(reader, 2) as second:
        assert told(second.path) == "version 2"
    # Something is left of one who died before it was published.
    monkeypatch.setattr("lakehouse.serving.versions.store_versions._TO_FETCH_S", -1)
    store.put(f"{there.address.key}/files/00000003-dead.duckdb", b"half of it")
    drop(there, 1)
    look(reader)

    assert stored_versions(there) == [3] and len(list((there / "files").iterdir())) == 2
    assert versions(reader.serving) == [1, 3] and told(held.path) == "version 1"
    assert kept_versions(reader) == [1, 3]
    assert sorted(path.stem for path in (reader.serving / "segments").iterdir()) == ["00000001", "00000003"]
    with pytest.raises(VersionGone):
        hold_downloaded(reader, 2)
    held.close()


def test_a_version_that_goes_while_it_is_fetched_gives_way_to_the_next(
    there: StorePath, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher, reader = tmp_path / "publisher" / "serving", machine(tmp_path, "reader", request.node.name)
    published(publisher, there, 1, {})
    gone = there / "files" / listed(there, 1).files["00000001.duckdb"].name
    gone.unlink()
    done = StorePath.download

    def late(self: StorePath, file: Path, size: int) -> None:
        if self.name == gone.name:
            published(publisher, there, 2, {})
        done(self, file, size)

    monkeypatch.setattr(StorePath, "download", late)
    download_current(reader.serving, there)
    assert versions(reader.serving) == [2] and not list(reader.serving.glob(".*"))


def test_many_who_bring_at_once_find_one_whole_version(
    there: StorePath, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    publisher, reader = tmp_path / "publisher" / "serving", machine(tmp_path, "reader", request.node.name)
    published(publisher, there, 1, {"00000001": "one"})
    found: list[str] = []

    def read() -> None:
        with hold_downloaded(reader) as held:
            found.append(told(held.path))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["version 1"] * 8


def test_while_the_store_is_away_the_last_version_that_was_downloaded_answers(
    store: S3,
    there: StorePath,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    publisher, reader = tmp_path / "publisher" / "serving", machine(tmp_path, "reader", request.node.name)
    published(publisher, there, 1, {})
    look(reader)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    store_access.forget()
    try:
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                with hold_downloaded(reader) as held:
                    assert held.version == 1
        assert [
            each.getMessage().partition(":")[0] for each in caplog.records if each.name.endswith("downloads")
        ] == ["version 1 is the last that was downloaded"]
        with pytest.raises(StoreUnavailable):
            download_current(reader.serving, there)
        with pytest.raises(StoreUnavailable):
            hold_downloaded(machine(tmp_path, "third", request.node.name))
    finally:
        store_access.forget()

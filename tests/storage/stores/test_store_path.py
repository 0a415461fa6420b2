"""A place on an object store behaves as a path of files does."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.config.store_address import Address
from lakehouse.storage.layout import Home
from lakehouse.storage.stores import store_access, store_objects
from lakehouse.storage.stores.store_access import StoreUnavailable
from lakehouse.storage.stores.store_path import StorePath, entries_after
from lakehouse.storage.stores.store_race import WRITERS, winners
from lakehouse.storage.tables.tables_place import place_at, record, recorded
from tests.support.stores.s3 import BUCKET, S3, named

pytestmark = pytest.mark.slow
ROOT = f"s3://{BUCKET}/lake"


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    with named() as server:
        yield server


@pytest.fixture
def table(store: S3, request: pytest.FixtureRequest) -> StorePath:
    """A table of this test's own, with two entries in its log and two files."""
    name = request.node.name
    for key in ("_delta_log/00000000000000000000.json", "_delta_log/00000000000000000001.json"):
        store.put(f"lake/raw/{name}/{key}", b"{}")
    store.put(f"lake/raw/{name}/ab/part-0.parquet", b"PAR1PAR1")
    store.put(f"lake/raw/{name}/bucket=3/part-1.parquet", b"PAR1...PAR1")
    return StorePath(f"{ROOT}/raw/{name}")


def test_joins_names_and_tells_what_is_below() -> None:
    place = StorePath(ROOT) / "raw" / "t"

    assert not issubclass(StorePath, Path), "nothing takes it for a file of this machine"
    assert str(place) == f"{ROOT}/raw/t" == place.__fspath__()
    assert (place.address.bucket, place.address.key, place.name, str(place.parent)) == (
        BUCKET,
        "lake/raw/t",
        "t",
        f"{ROOT}/raw",
    )
    assert str((place / "ab" / "x.parquet").relative_to(place)) == "ab/x.parquet"
    assert pickle.loads(pickle.dumps(place)) == place
    assert place_at(str(place)) == place and place_at("/s3:/raw") == Path("/s3:/raw")


def test_looks_and_lists_as_a_folder_does(table: StorePath) -> None:
    assert table.is_dir() and not table.is_file() and table.exists()
    assert not (table / "nothing").exists()
    assert sorted(each.name for each in table.iterdir()) == ["_delta_log", "ab", "bucket=3"]
    assert len(list((table / "_delta_log").glob("*.json"))) == 2
    found = sorted(table.rglob("*.parquet"))
    assert [str(each.relative_to(table)) for each in found] == [
        "ab/part-0.parquet",
        "bucket=3/part-1.parquet",
    ]
    assert found[1].stat().st_size == 11 and found[1].stat().st_mtime > 1e9
    assert found[0].read_bytes() == b"PAR1PAR1" and found[1].ends(4) == (b"PAR1", b"PAR1", 11)


def test_entries_of_a_log_end_at_a_gap(store: S3, table: StorePath) -> None:
    log = table / "_delta_log"
    store.put(f"{log.address.key}/00000000000000000001.checkpoint.parquet", b"x")
    store.put(f"{log.address.key}/00000000000000000003.json", b"{}")

    assert [int(each.stem) for each in entries_after(log, -1)] == [0, 1]
    assert [int(each.stem) for each in entries_after(log, 0)] == [1]
    assert [int(each.stem) for each in entries_after(log, 2)] == [3]


def test_what_is_deleted_is_gone(table: StorePath) -> None:
    (table / "ab" / "part-0.parquet").unlink()

    with pytest.raises(FileNotFoundError):
        (table / "ab" / "part-0.parquet").read_bytes()


def test_a_store_that_is_away_is_no_file_that_is_gone(store: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    store_access.forget()
    try:
        with pytest.raises(StoreUnavailable):
            StorePath(f"{ROOT}/raw/t").is_file()
    finally:
        store_access.forget()


def test_a_home_remembers_where_its_tables_are(tmp_path: Path) -> None:
    assert Home(tmp_path).tables == tmp_path
    tables = Home(tmp_path, ROOT).tables
    assert str(tables) == ROOT and recorded(tmp_path) is None

    record(tmp_path, StorePath(ROOT))

    assert Home(tmp_path).tables == tables
    assert Home(tmp_path).folder_of(tables / "raw" / "t") == tmp_path / "raw" / "t"


def test_one_of_many_writers_of_a_new_object_wins(store: S3) -> None:
    if not store.is_real:
        pytest.skip(
            "moto looks first and writes then: set TIDEMARK_VERSITYGW to a server that does both at once"
        )
    assert winners(StorePath(ROOT), 10) == [1] * 10
    assert not [each for each in StorePath(ROOT).iterdir() if each.name.startswith(".")]


def test_a_store_that_looks_first_is_found_out(store: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_condition(place: Address, content: bytes) -> None:
        store.put(place.key, content)

    monkeypatch.setattr(store_objects, "write_new", without_condition)

    assert winners(StorePath(ROOT), 2) == [WRITERS] * 2

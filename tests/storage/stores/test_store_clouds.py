"""A place on Google's or Microsoft's store behaves as one on S3 does, of which other tests say more."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.storage.layout import Home
from lakehouse.storage.stores import store_files, store_objects
from lakehouse.storage.stores.store_access import ObjectUnread, StoreUnavailable
from lakehouse.storage.stores.store_files import duckdb_filesystem
from lakehouse.storage.stores.store_path import StorePath, entries_after
from lakehouse.storage.stores.store_race import winners
from lakehouse.storage.tables import table_files
from lakehouse.storage.tables.tables_place import options_of, place_at, record, recorded
from tests.support.stores.clouds import ROOTS, SECRETS, cloud

pytestmark = pytest.mark.slow


def write(rows: pa.Table, path: StorePath) -> None:
    with table_files.sink(path) as file:
        pq.write_table(rows, file)


@pytest.fixture(scope="module", params=list(ROOTS))
def scheme(request: pytest.FixtureRequest) -> Iterator[str]:
    """A kind of store of which a server runs."""
    with cloud(request.param):
        yield request.param


@pytest.fixture
def place(scheme: str, request: pytest.FixtureRequest) -> StorePath:
    """A place of this test's own."""
    return StorePath(f"{ROOTS[scheme]}/{request.node.originalname}")


def test_looks_lists_and_deletes_as_in_a_folder(place: StorePath) -> None:
    for name in ("raw/t/ab/part-0.parquet", "raw/t/bucket=3/part-1.parquet", "raw/top"):
        (place / name).write_new(b"PAR1..PAR1")
    table = place / "raw" / "t"

    assert table.is_dir() and not table.is_file() and not (place / "nothing").exists()
    assert sorted(each.name for each in (place / "raw").iterdir()) == ["t", "top"]
    found = sorted(table.rglob("*.parquet"))
    assert [str(each.relative_to(table)) for each in found] == [
        "ab/part-0.parquet",
        "bucket=3/part-1.parquet",
    ]
    assert found[0].read_bytes() == b"PAR1..PAR1" and found[0].ends(4) == (b"PAR1", b"PAR1", 10)
    assert found[0].stat().st_size == 10 and found[0].stat().st_mtime > 1e9

    for _ in range(2):
        found[0].unlink()
    with pytest.raises(FileNotFoundError):
        found[0].read_bytes()
    assert not (table / "ab").is_dir()


def test_object_is_written_where_there_is_none(place: StorePath) -> None:
    (place / "a").write_new(b"first")
    with pytest.raises(FileExistsError):
        (place / "a").write_new(b"second")
    assert (place / "a").read_bytes() == b"first"


def test_one_of_many_writers_of_a_new_object_wins(scheme: str, place: StorePath) -> None:
    if scheme == "gs":
        pytest.skip("the stand-in looks first and writes then")
    assert winners(place, 10) == [1] * 10
    assert list(place.iterdir()) == []


def test_tables_are_written_and_read_by_all_libraries(place: StorePath) -> None:
    table = place / "raw" / "t"
    options = options_of(table)
    for number in range(3):
        write_deltalake(str(table), pa.table({"a": [number]}), mode="append", storage_options=options)
    assert DeltaTable(str(table), storage_options=options).to_pyarrow_table()["a"].to_pylist() == [2, 1, 0]
    assert [int(each.stem) for each in entries_after(table / "_delta_log", 0)] == [1, 2]

    rows = pa.table({"a": list(range(200_000)), "b": [os.urandom(50) for _ in range(200_000)]})
    file = table / "ab" / "big.parquet"
    write(rows, file)
    assert table_files.dataset([file]).to_table() == rows
    with duckdb.connect() as connection:
        connection.register_filesystem(duckdb_filesystem(place.address.scheme))
        query = f"SELECT sum(a), any_value(filename) FROM read_parquet('{file}', filename => true)"
        assert connection.execute(query).fetchall() == [(sum(range(200_000)), str(file))]
    with pytest.raises(FileNotFoundError):
        table_files.source(table / "none.parquet")


def test_file_goes_there_and_comes_back(place: StorePath, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content := os.urandom(25_000_001))
    (place / "file").upload(tmp_path / "file")
    (place / "file").download(tmp_path / "back", len(content))
    assert (tmp_path / "back").read_bytes() == content
    with pytest.raises(ObjectUnread, match="has not the 7 bytes"):
        (place / "file").download(tmp_path / "back", 7)


@pytest.mark.parametrize("size", [0, 1, 100, 101])
def test_object_is_read_in_pieces_of_any_number(place: StorePath, size: int) -> None:
    content = os.urandom(size)
    (place / f"{size}").write_new(content)
    with store_files.opened((place / f"{size}").address, 100) as file:
        assert file.read() == content


def test_bucket_that_is_not_there_is_named(scheme: str) -> None:
    elsewhere = StorePath(ROOTS[scheme].replace("landing", "elsewhere"))
    for ask in (elsewhere.is_dir, (elsewhere / "a").read_bytes, lambda: (elsewhere / "a").write_new(b"")):
        with pytest.raises(StoreUnavailable, match=r"elsewhere.*: there is no such bucket at http://127"):
            ask()


def test_store_that_is_away_is_no_file_that_is_gone(
    scheme: str, place: StorePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOOGLE_BASE_URL", "AZURE_STORAGE_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    asks = (
        (place / "a").is_file,
        place.is_dir,
        lambda: (place / "a").write_new(b""),
        lambda: table_files.source(place / "a"),
        lambda: write(pa.table({"a": [1]}), place / "b"),
    )
    for ask in asks:
        with pytest.raises(StoreUnavailable, match=r"http://127\.0\.0\.1:9 does not answer") as refused:
            ask()
        assert SECRETS[scheme] not in repr(refused.value)


def test_wrong_secret_is_refused_and_nothing_of_it_told(
    scheme: str, place: StorePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scheme == "gs":
        pytest.skip("the stand-in takes any credentials")
    for name, wrong in (
        ("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"hunter2").decode()),
        ("AZURE_STORAGE_ACCOUNT_KEY", "hunter2"),
        ("AZURE_STORAGE_SAS_KEY", "sv=2024-11-04&sig=hunter2"),
    ):
        with monkeypatch.context() as patch:
            patch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
            patch.setenv(name, wrong)
            store_objects._made.cache_clear()
            for ask in (lambda: (place / "a").write_new(b""), place.is_dir):
                with pytest.raises((ObjectUnread, StoreUnavailable)) as refused:
                    ask()
                assert wrong not in str(refused.value) and "hunter2" not in str(refused.value)
            with pytest.raises(OSError) as failed:
                DeltaTable(str(place), storage_options=options_of(place))
            assert wrong not in str(failed.value) and "hunter2" not in str(failed.value)
    store_objects._made.cache_clear()


def test_store_whose_library_is_missing_says_what_to_install(
    place: StorePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(
        StoreUnavailable, match=r"needs obstore: pip install 'tidemark\[s3\]', 'tidemark\[gs\]' or"
    ):
        place.is_dir()


@pytest.mark.parametrize("root", list(ROOTS.values()))
def test_a_home_remembers_where_its_tables_are(tmp_path: Path, root: str) -> None:
    tables = Home(tmp_path, f"{root}/lake").tables
    assert str(tables) == f"{root}/lake" and recorded(tmp_path) is None
    assert place_at(str(tables)) == tables and place_at("/gs:/raw") == Path("/gs:/raw")

    record(tmp_path, StorePath(f"{root}/lake"))

    assert Home(tmp_path).tables == tables
    assert Home(tmp_path).folder_of(tables / "raw" / "t") == tmp_path / "raw" / "t"

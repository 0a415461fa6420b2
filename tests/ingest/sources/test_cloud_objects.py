"""Landed files on Google's or Microsoft's store, where these differ from S3."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.config.landing import located
from lakehouse.config.store_address import address_of
from lakehouse.config.stream import Source
from lakehouse.ingest.sources import object_store
from lakehouse.ingest.sources.files import matching
from lakehouse.ingest.sources.landed_content import delete
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.layout import Home
from lakehouse.storage.stores import store_files
from lakehouse.storage.stores.store_access import ObjectUnread, StoreUnavailable
from lakehouse.storage.stores.store_objects import Written
from lakehouse.storage.stores.store_path import StorePath
from tests.support.stores.azure import Azurite
from tests.support.stores.clouds import ROOTS, cloud
from tests.support.stores.google import Google

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=list(ROOTS))
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, Google | Azurite]]:
    with cloud(request.param) as server:
        yield request.param, server


@pytest.fixture
def landing(server: tuple[str, Google | Azurite], request: pytest.FixtureRequest) -> str:
    """The URL of a landing place of this test's own."""
    return f"{ROOTS[server[0]]}/{request.node.originalname}"


def put(url: str, content: bytes = b"x\n1\n") -> None:
    """Upload an object, in the place of another where there is one."""
    file = Written(StorePath(url).address)
    file.write(content)
    file.close()


def source(pattern: str, **options: object) -> Source:
    return Source.model_validate({"path": pattern, "format": "ndjson", "settle": 0} | options)


def test_objects_are_listed_by_pattern_with_size_and_time_of_upload(landing: str) -> None:
    for key in ("a.csv", "b.json", "deep/c.csv", "_d.csv", "e.csv.part", "ab/f.csv", "a-g.csv"):
        put(f"{landing}/in/{key}")
    put(f"{landing}/in2/a.csv")

    def names(pattern: str) -> list[str]:
        asked = f"{landing}/{pattern}"
        names = (located(asked, name) for name, _ in matching(source(asked)))
        return [path.removeprefix(f"{landing}/in/") for path in names]

    assert names("in/*.csv") == ["a-g.csv", "a.csv"]
    assert names("in/a*.csv") == ["a-g.csv", "a.csv"] and names("in/a.csv") == ["a.csv"]
    assert names("in/**/*.csv") == ["a-g.csv", "a.csv", "ab/f.csv", "deep/c.csv"]
    assert sorted(names("in/")) == ["a-g.csv", "a.csv", "ab/f.csv", "b.json", "deep/c.csv"]
    [(_, seen)] = matching(source(f"{landing}/in/a.csv"))
    assert seen.size == 4 and abs(seen.mtime_ns / 1e9 - time.time()) < 60
    assert object_store.seen(f"{landing}/in/a.csv", None) == seen


@pytest.mark.parametrize("name", ["a b.csv", "a%20b.csv", "a[1]*.csv", "ü#+&;=@.csv", "a~.csv"])
def test_names_that_no_path_would_have_are_read_like_others(landing: str, name: str) -> None:
    put(f"{landing}/{name}", name.encode())

    assert name in dict(matching(source(f"{landing}/")))
    with store_files.opened(address_of(f"{landing}/{name}")) as file:
        assert file.read() == name.encode()


def test_object_that_is_replaced_while_it_is_read_is_not_two_halves(landing: str) -> None:
    put(f"{landing}/a", b"a" * 1000)
    with store_files.opened(address_of(f"{landing}/a"), 100) as file:
        assert file.read(100) == b"a" * 100
        put(f"{landing}/a", b"b" * 1000)
        with pytest.raises(ObjectUnread, match="replaced while it was read"):
            file.read(900)


def test_object_that_is_deleted_is_a_file_that_is_gone(landing: str) -> None:
    put(f"{landing}/a")
    for _ in range(2):
        delete(f"{landing}/a")
    with pytest.raises(FileNotFoundError), store_files.opened(address_of(f"{landing}/a")) as file:
        file.read(1)
    with pytest.raises(FileNotFoundError):
        object_store.seen(f"{landing}/a", None)


def test_look_for_more_begins_behind_the_last_key(
    landing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered = source(f"{landing}/*.csv", key_order="time", full_listing="1d")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    for number in range(5):
        put(f"{landing}/2026-01-05T{number}.csv", b"")
    assert store.add_files(ordered) == 5
    now = time.time_ns() + 11 * 60 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: now)
    assert store.add_files(ordered) == 0
    asked: list[str] = []
    listed = object_store.listed

    def noting(url: str, endpoint: str | None, after: str = "") -> object:
        for path, seen in listed(url, endpoint, after):
            asked.append(path.rpartition("/")[2])
            yield path, seen

    monkeypatch.setattr(object_store, "listed", noting)
    put(f"{landing}/2026-01-06T0.csv", b"")

    assert ManifestStore(Home(tmp_path / "var").manifests("s")).add_files(ordered) == 1
    assert asked == ["2026-01-06T0.csv"]


@pytest.mark.parametrize("key", ["/b.csv", "./b.csv", "../b.csv", "d//b.csv", "d/e/./b.csv", "d/e/a\x7f"])
def test_listing_that_meets_a_key_that_the_engine_cannot_name_is_refused_with_that_key(
    server: tuple[str, Google | Azurite], landing: str, key: str
) -> None:
    landing = f"{landing}/{key.encode().hex()}"
    server[1].put_raw(f"{landing.split('/', 3)[3]}/{key}")
    for name in ("0a.csv", "z.csv"):
        put(f"{landing}/{name}")

    with pytest.raises(
        StoreUnavailable, match=r"'.', '..' or a control character cannot be read there"
    ) as found:
        dict(matching(source(f"{landing}/")))

    assert repr(f"{landing.split('/', 3)[3]}/{key}") in str(found.value)
    assert str(found.value).endswith(": delete it")

from __future__ import annotations

import gzip
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from lakehouse.config.landing import located
from lakehouse.config.store_address import Address, address_of
from lakehouse.config.stream import Source
from lakehouse.ingest.sources import object_store
from lakehouse.ingest.sources.files import matching
from lakehouse.ingest.sources.landed_content import Landing, blocks
from lakehouse.ingest.sources.lines import numbered_lines, records_of
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.layout import Home
from lakehouse.storage.stores import store_access, store_files, store_objects
from lakehouse.storage.stores.store_access import ObjectUnread, StoreUnavailable
from lakehouse.storage.stores.store_objects import Piece
from tests.support.stores.s3 import BUCKET, KEY, S3, SECRET, running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    with running() as server:
        yield server


@pytest.fixture
def empty(store: S3) -> S3:
    for page in store.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for each in page.get("Contents", ()):
            store.remove(each["Key"])
    return store


def source(store: S3, pattern: str, **options: object) -> Source:
    return Source.model_validate(
        {"path": f"s3://{BUCKET}/{pattern}", "format": "csv", "settle": 0, "endpoint": store.endpoint}
        | options
    )


def names(store: S3, pattern: str) -> list[str]:
    asked = source(store, pattern)
    return [located(asked.path, name).removeprefix(f"s3://{BUCKET}/") for name, _ in matching(asked)]


def test_objects_are_listed_by_pattern_with_size_and_time_of_upload(empty: S3) -> None:
    for key in ("in/a.csv", "in/b.json", "in/deep/c.csv", "in/_d.csv", "in/e.csv.part", "other/f.csv"):
        empty.put(key, b"x\n1\n")

    found = dict(matching(source(empty, "in/*.csv")))
    uploaded = empty.client.head_object(Bucket=BUCKET, Key="in/a.csv")["LastModified"].timestamp()

    assert [(path, seen.size) for path, seen in found.items()] == [("a.csv", 4)]
    assert abs(found["a.csv"].mtime_ns / 1e9 - uploaded) <= 1
    assert names(empty, "in/**/*.csv") == ["in/a.csv", "in/deep/c.csv"]
    assert names(empty, "in") == ["in/a.csv", "in/b.json", "in/deep/c.csv"]


def test_names_that_no_path_would_have_are_read_like_others(empty: S3) -> None:
    keys = ["in/a b.csv", "in/a%20b.csv", "in/a[1]*?.csv", "in/ü#+&;=@.csv", "in/\\x41~.csv"]
    for key in keys:
        empty.put(key, key.encode())

    read = {name: _content(empty, name) for name in names(empty, "in/")}

    assert read == {key: key.encode() for key in keys}


@pytest.mark.parametrize("key", ["in//b.csv", "in/./b.csv", "in/../b.csv", "in/b\x7f.csv"])
def test_listing_that_meets_a_key_that_the_engine_cannot_name_is_refused_with_that_key(
    empty: S3, key: str
) -> None:
    if empty.is_real:
        pytest.skip("a server that keeps objects as files has no such key")
    for each in ("in/0a.csv", key, "in/z.csv"):
        empty.put(each, b"x\n1\n")

    with pytest.raises(
        StoreUnavailable, match=r"'.', '..' or a control character cannot be read there"
    ) as found:
        names(empty, "in/*.csv")

    assert str(found.value).endswith(f" ({key!r}): delete it")


def test_mark_of_a_folder_is_no_file_and_an_empty_file_is_one(empty: S3) -> None:
    for key in ("in/", "in/deep/", "in/deep/a.csv", "in/empty.csv"):
        empty.put(key, b"x" if key.endswith("a.csv") else b"")

    assert names(empty, "in/*") == ["in/empty.csv"]
    assert names(empty, "in") == ["in/deep/a.csv", "in/empty.csv"]


def test_keys_that_begin_as_the_pattern_does_are_listed_and_no_others(empty: S3) -> None:
    for key in ("in/2025.csv", "in/2026-01.csv", "in/2026-02.csv", "in/2027.csv", "in2/2026-01.csv"):
        empty.put(key, b"x\n1\n")

    assert names(empty, "in/2026*") == ["in/2026-01.csv", "in/2026-02.csv"]
    assert names(empty, "in/2026-0[2-9]*") == ["in/2026-02.csv"]
    assert names(empty, "*/2026-01*") == ["in/2026-01.csv", "in2/2026-01.csv"]
    assert names(empty, "in/2027.csv") == ["in/2027.csv"]


@pytest.mark.usefixtures("store")
def test_bucket_of_another_region_is_named_with_what_to_set() -> None:
    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(301)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(StoreUnavailable, match="in another region: set AWS_REGION"):
            list(object_store.listed("s3://landing/*", f"http://127.0.0.1:{server.server_port}"))
        server.shutdown()


def _content(store: S3, key: str) -> bytes:
    with store_files.opened(address_of(f"s3://{BUCKET}/{key}", store.endpoint)) as file:
        return file.read()


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 1000])
def test_object_is_read_in_pieces_of_any_number(empty: S3, size: int) -> None:
    content = os.urandom(size)
    url = empty.put("in/a", content)

    with store_files.opened(address_of(url, empty.endpoint), 100) as file:
        assert file.read() == content
        assert file.read() == b""
    with store_files.opened(address_of(url, empty.endpoint), 100) as file:
        assert (file.seek(-min(size, 7), 2), file.read()) == (
            size - min(size, 7),
            content[-7:] if size else b"",
        )


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_lines_are_those_of_the_same_local_file(empty: S3, tmp_path: Path, name: str) -> None:
    text = b"x,y\n" + b"".join(b"%d,%d\n" % (n, n * n) for n in range(100_000)) + b"\nlast,\xff"
    content = gzip.compress(text)[:-9] if name.endswith(".gz") else text
    (tmp_path / name).write_bytes(content)
    url = empty.put(f"in/{name}", content)

    here = list(numbered_lines(blocks(str(tmp_path / name)), 1 << 20))
    there = list(numbered_lines(blocks(url, Landing(empty.endpoint)), 1 << 20))

    assert there == here


def test_object_that_is_replaced_while_it_is_read_is_not_two_halves(empty: S3) -> None:
    url = empty.put("in/a", b"a" * 1000)
    with store_files.opened(address_of(url, empty.endpoint), 100) as file:
        assert file.read(100) == b"a" * 100
        empty.put("in/a", b"b" * 1000)
        with pytest.raises(ObjectUnread, match="replaced while it was read"):
            file.read(900)


@pytest.mark.parametrize("content", [b"x,y\n3,4\n", b""])
def test_object_that_is_replaced_after_it_was_listed_is_not_read(
    empty: S3, tmp_path: Path, content: bytes
) -> None:
    csv = source(empty, "in/*.csv")
    for name, first in (("a", b"x,y\n1,2\n"), ("b", b"x,y\n5,6\n"), ("c", b"")):
        empty.put(f"in/{name}.csv", first)
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(csv)
    empty.put("in/a.csv", content)

    read = [
        (record["record"][0].as_py(), record["fault"][0].as_py())
        for file in store.behind(0)[0].files
        for record in records_of(file, csv)
        if record.num_rows
    ]

    said = "unreadable_file: it changed after it was listed, and is not read: give it a new name"
    assert read == [(b"", said), (b"5,6", None)]


def test_object_that_is_gone_is_a_file_that_is_gone(empty: S3) -> None:
    url = f"s3://{BUCKET}/in/never"
    with pytest.raises(FileNotFoundError), store_files.opened(address_of(url, empty.endpoint)) as file:
        file.read(1)
    with pytest.raises(FileNotFoundError):
        object_store.seen(url, empty.endpoint)


def test_bucket_that_is_not_there_is_named(empty: S3) -> None:
    with pytest.raises(StoreUnavailable, match=r"s3://elsewhere: there is no such bucket at http://127"):
        list(object_store.listed("s3://elsewhere/*", empty.endpoint))
    with pytest.raises(StoreUnavailable, match="there is no such bucket"):
        store_files.opened(address_of("s3://elsewhere/a", empty.endpoint)).read()


def test_store_that_does_not_answer_is_named() -> None:
    with pytest.raises(StoreUnavailable, match=r"http://127\.0\.0\.1:9 does not answer"):
        list(object_store.listed("s3://landing/*", "http://127.0.0.1:9"))


@pytest.fixture
def afresh() -> Iterator[None]:
    store_access.forget()
    yield
    store_access.forget()


@pytest.mark.usefixtures("afresh")
def test_credentials_that_are_missing_are_asked_for(empty: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    store_access.forget()
    with pytest.raises(StoreUnavailable, match="there are no credentials: set AWS_ACCESS_KEY_ID"):
        list(object_store.listed(f"s3://{BUCKET}/*", empty.endpoint))

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    assert list(object_store.listed(f"s3://{BUCKET}/*", empty.endpoint)) == []


@pytest.mark.usefixtures("afresh")
def test_credentials_of_a_profile_and_endpoint_of_the_environment_are_taken(
    empty: S3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty.put("in/a", b"1")
    (tmp_path / "credentials").write_text(
        f"[lake]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    )
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "lake")
    monkeypatch.setenv("AWS_ENDPOINT_URL", empty.endpoint)
    store_access.forget()

    assert [url for url, _ in object_store.listed(f"s3://{BUCKET}/in/*", None)] == [f"s3://{BUCKET}/in/a"]

    store_access.forget()
    monkeypatch.setenv("AWS_PROFILE", "sea")
    with pytest.raises(StoreUnavailable, match="ProfileNotFound; AWS_PROFILE is 'sea'"):
        list(object_store.listed(f"s3://{BUCKET}/*", None))


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("endpoint", ["http://user:hunter2@127.0.0.1:9", "hunter2:no-address"])
def test_endpoint_of_the_environment_with_a_secret_is_refused_and_not_told(
    empty: S3, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    store_access.forget()
    with pytest.raises(StoreUnavailable, match="AWS_ENDPOINT_URL") as refused:
        list(object_store.listed(f"s3://{BUCKET}/*", None))
    assert "hunter2" not in repr(refused.value)


@pytest.mark.usefixtures("afresh")
def test_wrong_secret_is_refused_and_nothing_of_it_told(empty: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    if not empty.is_real:
        pytest.skip("moto takes any credentials: TIDEMARK_VERSITYGW names a server that does not")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    store_access.forget()
    with pytest.raises(StoreUnavailable, match="SignatureDoesNotMatch") as refused:
        list(object_store.listed(f"s3://{BUCKET}/*", empty.endpoint))
    assert not {"hunter2", KEY} & set(str(refused.value).split())


@contextmanager
def requests(store: S3) -> Iterator[list[str]]:
    """Note what is asked of the store."""
    asked: list[str] = []
    before = len(store.requests())
    yield asked
    asked += store.requests()[before:]


def aged(monkeypatch: pytest.MonkeyPatch, minutes: int) -> None:
    """Let so much time pass."""
    now = time.time_ns() + minutes * 60 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: now)


def test_look_for_more_costs_no_more_with_the_age_of_the_store(
    empty: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered = source(
        empty, "in/*.csv", key_order="time", full_listing="1d", format="ndjson", batch_files=5000
    )
    for number in range(25):
        empty.put(f"in/2026-01-05T{number:05}.csv", b"{}\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    with requests(empty) as first:
        assert store.add_files(ordered) == 25
    aged(monkeypatch, 11)
    with requests(empty) as second:
        assert store.add_files(ordered) == 0
    empty.put("in/2026-01-06T00001.csv", b"{}\n")

    with requests(empty) as third:
        assert ManifestStore(Home(tmp_path / "var").manifests("s")).add_files(ordered) == 1

    listings = [[each for each in asked if "list-type" in each] for asked in (first, second, third)]
    assert [len(each) for each in listings] == [1, 1, 1]
    assert ["start-after=in/2026-01-05T00024.csv" in unquote(each[0]) for each in listings] == [
        False,
        False,
        True,
    ]
    assert (len(third), len(ManifestStore(Home(tmp_path / "var").manifests("s")).behind(0))) == (2, 2)


@pytest.mark.parametrize("late", ["a little", "a lot"])
def test_key_that_comes_behind_a_greater_one_is_found(
    empty: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    ordered = source(empty, "in/*.csv", key_order="time", full_listing="1h", format="ndjson")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    for key in ("a", "c"):
        empty.put(f"in/{key}.csv", b"")
    assert store.add_files(ordered) == 2
    if late == "a lot":
        aged(monkeypatch, 61)
        assert store.add_files(ordered) == 0
    empty.put("in/b.csv", b"")

    if late == "a lot":
        assert store.add_files(ordered) == 0
        aged(monkeypatch, 61)
    assert store.add_files(ordered) == 1


def test_object_that_is_not_given_waits_and_stops_no_other(
    empty: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("a", "b"):
        empty.put(f"in/{key}.csv", b"x\n1\n")
    refused = {"a"}
    given = store_objects.piece

    def not_all(place: Address, at: int, size: int, tag: str) -> Piece | None:
        if any(place.key.endswith(f"{name}.csv") for name in refused):
            raise ObjectUnread(f"{place.url}: it is not given (AccessDenied)")
        return given(place, at, size, tag)

    monkeypatch.setattr(store_objects, "piece", not_all)
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))

    assert store.add_files(source(empty, "in/*.csv")) == 1
    with pytest.raises(StoreUnavailable, match=r"none of 1 new objects can be read: .*AccessDenied"):
        store.add_files(source(empty, "in/*.csv"))
    refused.clear()

    assert store.add_files(source(empty, "in/*.csv")) == 1
    assert [file.path[-5:] for each in store.behind(0) for file in each.files] == ["b.csv", "a.csv"]


@contextmanager
def cut(store: S3, answers: int, after: int) -> Iterator[str]:
    """Stand between client and store, and break off so many answers after some bytes."""
    left = [answers]

    def pass_on(here: socket.socket) -> None:
        with here, socket.create_connection(("127.0.0.1", store.port)) as there:
            while request := here.recv(65536):
                there.sendall(request)
                answer = b""
                while not answer.endswith(CONTENT[-9:]):
                    answer += there.recv(65536)
                if left[0]:
                    left[0] -= 1
                    here.sendall(answer[: -len(CONTENT) + after])
                    return
                here.sendall(answer)

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=pass_on, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


CONTENT = os.urandom(5_000)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_connection_that_breaks_off_in_the_midst_of_an_object_is_tried_again(empty: S3, times: int) -> None:
    url = empty.put("in/a", CONTENT)
    with cut(empty, times, 2_000) as endpoint, store_files.opened(address_of(url, endpoint)) as file:
        if times < 3:
            assert file.read() == CONTENT
        else:
            with pytest.raises(StoreUnavailable, match=f"in/a: {endpoint} does not answer"):
                file.read()


def test_small_object_costs_one_request_to_look_at_and_one_to_read(empty: S3, tmp_path: Path) -> None:
    empty.put("in/a.csv", b"x,y\n1,2\n")
    store, csv = ManifestStore(Home(tmp_path / "var").manifests("s")), source(empty, "in/*.csv")
    with requests(empty) as asked:
        store.add_files(csv)
        for _ in records_of(store.behind(0)[0].files[0], csv):
            pass

    assert ["list-type" in each for each in asked] == [True, False, False]
    assert [each.partition(" ")[0] for each in asked] == ["GET"] * 3

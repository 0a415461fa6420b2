"""Bounds of what clients may cost before anybody knows who they are."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from lakehouse.storage.layout import Home
from lakehouse.web import connections
from lakehouse.web.connections import LONGEST_HEADERS
from lakehouse.web.security.access import MOST_PARAMETERS
from tests.serving.conftest import Lakehouse
from tests.web.conftest import TOKEN, held_versions, published, served, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def home(lakehouse: Lakehouse) -> Home:
    return lakehouse.home


@pytest.fixture
def small(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with room for twenty connections, of which each has a second for its request."""
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    monkeypatch.setattr(connections, "REQUEST_S", 1.0)
    with served(home) as address:
        yield address


def _connected(address: str, source: str = "127.0.0.1") -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=20, source_address=(source, 0))


def _request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()


def _first_bytes(client: socket.socket) -> bytes:
    """Return what comes first, nothing where the connection was closed."""
    try:
        return client.recv(12)
    except ConnectionResetError:
        return b""


def test_headers_without_end_are_refused(address: str) -> None:
    with _connected(address) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
        sent = 0
        with pytest.raises(OSError):
            while sent < 100 * LONGEST_HEADERS:
                sent += client.send(b"a" * 65_536)
                time.sleep(0.01)
            raise AssertionError("all of it was read")


def test_more_parameters_than_any_question_has_are_refused_at_once(address: str) -> None:
    started = time.monotonic()
    refused = httpx.get(f"{address}/latest/ask.json?" + "a=1&" * (MOST_PARAMETERS + 5), timeout=20)

    assert (refused.status_code, refused.json()["title"]) == (400, "Wrong parameter")
    assert time.monotonic() - started < 5


def test_a_client_that_sends_a_byte_now_and_then_is_disconnected(small: str) -> None:
    with _connected(small) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\n")
        until = time.monotonic() + 20
        with pytest.raises(OSError):
            while time.monotonic() < until:
                client.sendall(b"X-A: b\r\n")
                time.sleep(0.2)


def test_idle_connections_lock_nobody_out(small: str) -> None:
    with ExitStack() as idle:
        for _ in range(60):
            idle.enter_context(_connected(small))

        answers = [httpx.get(f"{small}/healthz", timeout=20).status_code for _ in range(5)]

    assert answers == [200] * 5


def test_of_requests_that_come_before_their_answers_the_first_is_answered(small: str) -> None:
    with _connected(small) as client:
        client.sendall(_request("/healthz") * 50)
        answered = b""
        while piece := _first_bytes(client):
            answered += piece

    assert answered.count(b"HTTP/1.1 200") == 1


def test_requests_of_one_connection_are_answered_one_after_the_other(small: str) -> None:
    with httpx.Client() as client:
        assert [client.get(f"{small}/healthz").status_code for _ in range(5)] == [200] * 5


def test_a_body_of_two_lengths_is_refused_and_the_connection_closed(small: str) -> None:
    head = _request("/latest/sql.json").replace(b"GET", b"POST").removesuffix(b"\r\n")
    lengths = b"Content-Type: text/plain\r\nContent-Length: 8\r\nTransfer-Encoding: chunked\r\n\r\n"
    with _connected(small) as client:
        client.sendall(head + lengths + b"8\r\nSELECT 1\r\n0\r\n\r\n")
        answered = b""
        while piece := _first_bytes(client):
            answered += piece

    assert answered.startswith(b"HTTP/1.1 400") and b"not both" in answered


def test_one_address_has_half_of_the_connections_however_busy_they_are(small: str) -> None:
    with ExitStack() as busy:

        def listen() -> bytes:
            client = busy.enter_context(_connected(small))
            client.sendall(_request("/events"))
            return _first_bytes(client)

        # One after the other: who is still waiting for its request gives way to the next.
        first, last = [listen() for _ in range(10)], [listen() for _ in range(5)]

        other = busy.enter_context(_connected(small, "127.0.0.2"))
        other.sendall(_request("/healthz"))
        answered = other.recv(12)

    assert first == [b"HTTP/1.1 200"] * 10 and last == [b""] * 5
    assert answered == b"HTTP/1.1 200"


def test_a_client_that_reads_nothing_gives_its_version_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "READ_S", 1.0)
    home = published(tmp_path, "pair")
    # More than the kernel keeps for a client.
    (file,) = home.serving.glob("*.duckdb")
    os.truncate(file, 64 * 1024**2)
    with served(home) as address, _connected(address) as client:
        before = held_versions()
        client.sendall(_request("/latest/tidemark.duckdb"))
        wait_for(lambda: held_versions() != before)

        wait_for(lambda: held_versions() == before, 10)


def test_an_answer_may_take_longer_than_a_request(small: str) -> None:
    with _connected(small) as client:
        client.sendall(_request("/events"))
        began = client.recv(4096)
        time.sleep(1.5)

        client.settimeout(0.2)
        assert began.startswith(b"HTTP/1.1 200")
        with pytest.raises(TimeoutError):
            while client.recv(4096):
                pass

"""The published home of tests/serving behind the application: in this process, and at a real port."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from starlette.testclient import TestClient

from lakehouse.storage.layout import Home
from lakehouse.web.app import WebOptions, create_app
from lakehouse.web.connections import config_of
from tests.serving.conftest import Lakehouse

# The own token of the servers of the tests.
TOKEN = "t" * 43


@pytest.fixture(scope="session")
def client(lakehouse: Lakehouse) -> Iterator[TestClient]:
    """A client of the application in this process."""
    with client_of(lakehouse.home) as found:
        yield found


@contextmanager
def client_of(home: Home, options: WebOptions | None = None) -> Iterator[TestClient]:
    """Give a client, in this process, of a home's application, with the server's own token."""
    app = create_app(home, own(options))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(app, "http://127.0.0.1", headers=headers, raise_server_exceptions=False) as found:
        yield found


def own(options: WebOptions | None = None) -> WebOptions:
    """Return options of a server that has a token of its own."""
    return replace(options or WebOptions(), own_token=TOKEN)


def bare(address: str) -> str:
    """Return an address without its token."""
    return address.replace(f"tidemark:{TOKEN}@", "")


@contextmanager
def served(home: Home, options: WebOptions | None = None) -> Iterator[str]:
    """Give the address of a home's application at a real port of the loopback, with the server's own token."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = config_of(create_app(home, own(options)), timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        wait_for(lambda: server.started)
        try:
            yield f"http://tidemark:{TOKEN}@127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=10)


@pytest.fixture(scope="session")
def address(lakehouse: Lakehouse) -> Iterator[str]:
    """The address of a server of the shared home."""
    with served(lakehouse.home) as found:
        yield found


def wait_for(holds: Callable[[], object], seconds: float = 20) -> None:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it never held"
        time.sleep(0.02)


def published(folder: Path, name: str) -> Home:
    """Return a home of its own with one small stream, for tests that change it."""
    from lakehouse.serving.publish.publish import publish
    from tests.serving.conftest import STREAMS

    home = Home(folder / "home")
    publish(home, [STREAMS[name].write(folder / name)])
    return home


def held_versions() -> list[str]:
    """Return the versions' locks that this process has open, one for each reader."""
    links = (Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return sorted(
        target for link in links if link.is_symlink() and (target := os.readlink(link)).endswith(".lock")
    )

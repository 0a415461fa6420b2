"""The published home of tests/serving behind the application: in this process, and at a real port."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.testclient import TestClient

from lakehouse.home.layout import Home
from lakehouse.web.app import WebOptions, create_app
from lakehouse.web.connections import config_of
from tests.serving.conftest import Lakehouse


@pytest.fixture(scope="session")
def client(lakehouse: Lakehouse) -> Iterator[TestClient]:
    """A client of the application in this process."""
    with client_of(lakehouse.home) as found:
        yield found


@contextmanager
def client_of(home: Home, options: WebOptions | None = None) -> Iterator[TestClient]:
    """Give a client of a home's application in this process."""
    app = create_app(home, options)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as found:
        yield found


@contextmanager
def served(home: Home, options: WebOptions | None = None) -> Iterator[str]:
    """Give the address of a home's application at a real port of the loopback."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = config_of(create_app(home, options), timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        wait_for(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
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
    from lakehouse.serving.file.publish import publish
    from tests.serving.conftest import STREAMS

    home = Home(folder / "home")
    publish(home, [STREAMS[name].write(folder / name)])
    return home

"""Servers of stores, each with one empty bucket while tests use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Store(Protocol):
    """A server that can be started with a bucket."""

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        ...

    def make_bucket(self) -> None:
        """Make the bucket that tests use."""
        ...

    def kill(self) -> None:
        """Kill it."""
        ...


@contextmanager
def serving(server: Store) -> Iterator[None]:
    """Start a server with an empty bucket; kill it afterwards."""
    server.start()
    try:
        server.make_bucket()
        yield
    finally:
        server.kill()

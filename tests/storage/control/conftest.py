"""One Postgres for all tests of leases in a database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.control.postgres import Postgres, running


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """A server that runs; a test that kills it starts it again."""
    with running() as started:
        yield started

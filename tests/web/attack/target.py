"""The server that is attacked: a home of two streams, of which a token may see one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from starlette.testclient import TestClient

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.serving.publish.publish import publish
from lakehouse.storage.control.outcomes import record
from lakehouse.storage.layout import Home
from lakehouse.web.security.tokens import Scope, add_token
from tests.serving.streams import RandomStream, random_rows
from tests.web.conftest import client_of

SEEN, HIDDEN = "greenhouse", "vault7c1"
LEVELS = (Level(5, 60), Level(20, None))
# Far from the times of the other stream, so that it can be told in any answer.
NEWEST_US = 1_234_567_890_123
KEY = "lathe-9f3"


@dataclass
class Target:
    """A client of the server, the home behind it, and tokens: of one stream, of all without SQL, and of everything."""

    client: TestClient
    home: Home
    limited: str
    reader: str
    every: str

    def headers(self, token: str) -> dict[str, str]:
        """Return the headers of a request with a token."""
        return {"Authorization": f"Bearer {token}"}


@contextmanager
def attacked(folder: Path) -> Iterator[Target]:
    """Give a server of a home of its own."""
    home = Home(folder / "home")
    moved = [replace(row, event_us=NEWEST_US, device=KEY) for row in random_rows(2, 100, 1)]
    streams = [
        RandomStream(SEEN, LEVELS, random_rows(1, 150, 900), quarantine={"malformed": 1}),
        RandomStream(HIDDEN, LEVELS, moved, quarantine={"bad_value": 977}),
    ]
    publish(home, [stream.write(folder / stream.name) for stream in streams])
    for name in (SEEN, HIDDEN):
        standing = {"standing": [f"no file of {name} matches {folder}/{name}/*.csv"]}
        record(home, "ingest", name, True, datetime.now(UTC), 1.0, standing)
    tokens = [
        add_token(home, name, scopes, streams)
        for name, scopes, streams in (
            ("limited", [Scope.READ, Scope.QUARANTINE], [SEEN, "unpublished"]),
            ("reader", [Scope.READ], None),
            ("every", list(Scope), None),
        )
    ]
    with client_of(home) as client:
        del client.headers["Authorization"]
        yield Target(client, home, *tokens)

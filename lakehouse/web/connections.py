"""Connections of clients, bounded before anybody is known: their number, their headers, and the time until a request.

A client that sends nothing, or a byte now and then, has ten seconds for a whole request, and one that reads nothing
ten for each 64 KiB of its answer. When the server is full, the connection that has waited longest for its request makes
room for a new one, so idle connections lock nobody out. One address has at most half of the room.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

# Request line and headers; a longer statement goes into a body.
LONGEST_HEADERS = 64 * 1024
REQUEST_S = READ_S = 10.0
MOST_CONNECTIONS = 2_000
# Descriptors that are no connections: versions, segments, workers, logs.
_OTHER_FILES = 256


class Room:
    """The connections of a server: how many it may hold in all and of one address, and which wait for a request."""

    def __init__(self, most: int) -> None:
        self.most, self._most_of_address = most, max(1, most // 2)
        self._held: dict[str, int] = {}
        # In the order of their deadlines, since all have the same time.
        self._waiting: dict[BoundedConnection, None] = {}
        self._waiting_of_address: dict[str, dict[BoundedConnection, None]] = {}

    def enter(self, connection: BoundedConnection) -> None:
        """Take a connection; what is too much ends the one that has waited longest, or the new one."""
        address = connection.address
        self._held[address] = self._held.get(address, 0) + 1
        if self._held[address] > self._most_of_address:
            waiting = self._waiting_of_address.get(address, {})
            next(iter(waiting), connection).give_way()
        elif len(connection.connections) >= self.most and self._waiting:
            next(iter(self._waiting)).give_way()

    def leave(self, connection: BoundedConnection) -> None:
        """Forget a connection."""
        address = connection.address
        self._held[address] -= 1
        if not self._held[address]:
            del self._held[address]

    def wait(self, connection: BoundedConnection) -> None:
        """Note that a connection waits for its request, as the last."""
        self._waiting[connection] = None
        self._waiting_of_address.setdefault(connection.address, {})[connection] = None

    def wait_no_more(self, connection: BoundedConnection) -> None:
        """Note that a connection does not wait."""
        del self._waiting[connection]
        of_address = self._waiting_of_address[connection.address]
        del of_address[connection]
        if not of_address:
            del self._waiting_of_address[connection.address]


class BoundedConnection(H11Protocol):
    """An HTTP connection that is closed where its request does not come in time, or its answer is not read."""

    room: Room
    _until_request: asyncio.TimerHandle | None = None
    _until_read: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """The address of the client, empty where it has none."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; where there is no room, one that waits for its request gives way."""
        super().connection_made(transport)
        self._await_request()
        self.room.enter(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes; the time runs from a request's first one to its last one."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._await_request()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Take the next request; whoever sent it before this answer is sent away: many at once cost others time."""
        if self.conn.their_state is h11.DONE and self.conn.trailing_data[0].strip():
            self.transport.close()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read what was sent."""
        super().pause_writing()
        self._until_read = self._until_read or self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on sending."""
        super().resume_writing()
        self._read()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        self._read()
        self.room.leave(self)
        super().connection_lost(exc)

    def give_way(self) -> None:
        """End the connection at once."""
        self._stop_waiting()
        self.transport.abort()
        # The loop tells it later than a request on another one may come, which its place would then refuse.
        self.connections.discard(self)

    def _await_request(self) -> None:
        if self._until_request is None:
            self._until_request = self.loop.call_later(REQUEST_S, self.transport.abort)
            self.room.wait(self)

    def _stop_waiting(self) -> None:
        if self._until_request is not None:
            self._until_request.cancel()
            self._until_request = None
            self.room.wait_no_more(self)

    def _read(self) -> None:
        if self._until_read is not None:
            self._until_read.cancel()
            self._until_read = None


def config_of(app: Any, **options: Any) -> Config:
    """Return how uvicorn serves an application, within these bounds and those of the process's descriptors."""
    room = Room(most_connections())
    return Config(
        app,
        http=type("Connection", (BoundedConnection,), {"room": room}),
        ws="none",
        h11_max_incomplete_event_size=LONGEST_HEADERS,
        limit_concurrency=room.most,
        log_config=None,
        access_log=False,
        server_header=False,
        **options,
    )


def most_connections() -> int:
    """Raise the process's limit of descriptors as far as it may; return how many connections it leaves room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _OTHER_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(MOST_CONNECTIONS, soft - _OTHER_FILES))

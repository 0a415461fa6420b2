"""Connections of clients, bounded before anybody is known: their number, their headers, and the time until a request.

A client that sends nothing, or a byte now and then, has ten seconds for a whole request. When the server is full, the
connection that has waited longest for its request makes room for a new one, so idle connections lock nobody out.
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
REQUEST_S = 10.0
MOST_CONNECTIONS = 2_000
# Descriptors that are no connections: versions, segments, workers, logs.
_OTHER_FILES = 256


class BoundedConnection(H11Protocol):
    """An HTTP connection that is closed where its request does not come in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; where the server is full, close the one that has waited longest for its request."""
        super().connection_made(transport)
        most = self.limit_concurrency
        if most is not None and len(self.connections) >= most:
            waiting = (each for each in self.connections if isinstance(each, BoundedConnection))
            idle = [each for each in waiting if each._timer is not None]
            if idle:
                longest = min(idle, key=BoundedConnection._deadline)
                longest._stop_waiting()
                longest.transport.abort()
                # The loop tells it later than a request on this one may come, which its place would then refuse.
                self.connections.discard(longest)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Take bytes; the time runs from a request's first one to its last one."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._await_request()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _deadline(self) -> float:
        return self._timer.when() if self._timer is not None else float("inf")


def config_of(app: Any, **options: Any) -> Config:
    """Return how uvicorn serves an application, within these bounds and those of the process's descriptors."""
    return Config(
        app,
        http=BoundedConnection,
        ws="none",
        h11_max_incomplete_event_size=LONGEST_HEADERS,
        limit_concurrency=most_connections(),
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

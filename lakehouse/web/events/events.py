"""Server-sent events: one for each published version, and one for each alarm that was raised, changed or withdrawn.

One task follows the pointer to the current version, whoever listens; a listener costs a queue. What a listener missed
while it was away is not sent again but for the last: it asks ``/latest`` and ``alarm_changes`` with what it saw last.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from lakehouse.serving.versions.versions import NotPublished, VersionGone
from lakehouse.storage.layout import Home
from lakehouse.web.events.alarm_changes import Told, changes_after, newest_told, queries_with_alarms
from lakehouse.web.problems import Problem
from lakehouse.web.security.access import check_all_streams, token
from lakehouse.web.security.tokens import LOCAL, Token, read_tokens
from lakehouse.web.versions import Versions

logger = logging.getLogger(__name__)
MOST_LISTENERS = 1_000
_LOOK_S, _AGAIN_S, _KEEP_ALIVE_S, _TOKENS_S = 0.25, 2.0, 15.0, 2.0
# A listener that takes nothing for so many events is sent away; it comes back and asks.
_QUEUE = 100
# Most changes of alarms that are told of one version; the rest is in alarm_changes.
_MOST_CHANGES = 1_000
router = APIRouter(tags=["events"])


@dataclass(frozen=True)
class Event:
    """One event: its kind, the version that it is of, and what it says."""

    kind: str
    version: int
    data: dict[str, Any]

    def written(self) -> bytes:
        """Return it as the protocol has it."""
        data = json.dumps({"version": self.version, **self.data}, ensure_ascii=False)
        return f"event: {self.kind}\nid: {self.version}\ndata: {data}\n\n".encode()


class Events:
    """Follows the current version and tells all listeners; ``follow`` runs as one task."""

    def __init__(self, layout: Home, versions: Versions) -> None:
        self._layout, self._versions = layout, versions
        # Each with the token that it listens by.
        self._listeners: dict[asyncio.Queue[Event | None], Token] = {}
        # Per query the newest batch and repair whose changes of alarms were told.
        self._told: dict[str, Told] = {}
        self.version = 0

    async def follow(self) -> None:
        """Look for a new version again and again, until cancelled."""
        while True:
            wait_s = _LOOK_S
            try:
                version = await asyncio.to_thread(self._versions.look)
                if version != self.version:
                    events = await asyncio.to_thread(self._of_version, version)
                    self.version = version
                    for event in events:
                        self._tell(event)
            except (NotPublished, VersionGone, ValueError):
                pass
            except Exception:
                # A version that cannot be read must not be the last one that anybody hears of.
                logger.exception("the current version could not be looked at, again in %g s", _AGAIN_S)
                wait_s = _AGAIN_S
            await asyncio.sleep(wait_s)

    def _tell(self, event: Event) -> None:
        for listener in list(self._listeners):
            if listener.qsize() >= _QUEUE:
                self._send_away(listener)
            else:
                listener.put_nowait(event)

    def _send_away(self, listener: asyncio.Queue[Event | None]) -> None:
        self._listeners.pop(listener, None)
        listener.put_nowait(None)

    async def watch_tokens(self) -> None:
        """Send away whose token was revoked, until cancelled; one read of the tokens for all listeners."""
        while True:
            await asyncio.sleep(_TOKENS_S)
            if not self._listeners:
                continue
            try:
                known = {one.hash for one in await asyncio.to_thread(read_tokens, self._layout)} | {
                    LOCAL.hash
                }
            except Exception:
                # Nobody new is let in meanwhile, and those who were let in stay.
                logger.exception("the tokens of listeners could not be read")
                continue
            for listener, by in list(self._listeners.items()):
                if by.hash not in known:
                    self._send_away(listener)

    def _of_version(self, version: int) -> list[Event]:
        with self._versions.reader(version) as reader:
            connection = reader.connection
            row = connection.execute("SELECT published_us FROM publication").fetchone()
            events = [Event("version", version, {"published_us": row[0] if row else None})]
            for query in queries_with_alarms(connection):
                # Changes before the first version that is seen were told by whoever saw them.
                if query in self._told:
                    new = islice(changes_after(connection, query, self._told[query]), _MOST_CHANGES)
                    events += [Event("alarm", version, dict(change)) for change in new]
                self._told[query] = newest_told(connection, query)
        return events

    async def listen(self, token: Token) -> AsyncIterator[bytes]:
        """Yield events from now on, and a comment where there are none for a while, as long as a token is good."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._listeners[queue] = token
        try:
            yield (
                Event("version", self.version, {}).written()
                if self.version
                else b": nothing published yet\n\n"
            )
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), _KEEP_ALIVE_S)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if event is None:
                    return
                yield event.written()
        finally:
            self._listeners.pop(queue, None)

    @property
    def is_full(self) -> bool:
        """True if no further listener is taken."""
        return len(self._listeners) >= MOST_LISTENERS


@router.get(
    "/events", summary="Server-sent events: `version` for each publish, `alarm` for each change of an alarm"
)
async def events(request: Request) -> Response:
    """Return events from now on, until the client leaves; the first names the current version."""
    check_all_streams(request)
    source: Events = request.app.state.events
    if source.is_full:
        raise Problem(503, "Busy", f"{MOST_LISTENERS} listen already", {"Retry-After": "60"})
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(source.listen(token(request)), headers=headers, media_type="text/event-stream")

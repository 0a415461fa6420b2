"""Work that blocks (a question, a statement, a scan of a table) off the loop, with a place, a time and an end.

At most ``at_once`` works run, at most ``waiting`` wait; more are refused at once with 503. One place is kept from other
people's statements, which may each take all the time there is: whoever looks at the page in the meantime is answered. A
work that takes too long, or whose client has gone, is interrupted, so that nobody's question outlives them.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request

from lakehouse.web.problems import Problem

T = TypeVar("T")


@dataclass
class Stop:
    """Stop of a work that is running; the work says what stops it, whoever waits says when."""

    _interrupt: Callable[[], object] | None = None
    _is_stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def by(self, interrupt: Callable[[], object]) -> None:
        """Say what stops the work from now on; it is called at once where it should have stopped already."""
        with self._lock:
            self._interrupt = interrupt
            if self._is_stopped:
                interrupt()

    def now(self) -> None:
        """Stop the work."""
        with self._lock:
            self._is_stopped = True
            if self._interrupt is not None:
                self._interrupt()


class ClientLeft(Exception):
    """Nobody waits for the answer any more."""


class Work:
    """Places to work, shared by all requests of a process."""

    def __init__(self, at_once: int, waiting: int, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._places = asyncio.Semaphore(at_once)
        self._of_statements = asyncio.Semaphore(max(1, at_once - 1))
        self._free = at_once + waiting
        self._threads = ThreadPoolExecutor(at_once, "work")

    async def run(self, request: Request, work: Callable[[Stop], T], is_statement: bool = False) -> T:
        """Return what a work returns; ``is_statement`` where it is a statement of other people.

        Raises Problem: 503 where too many wait already, 504 where it took too long; ClientLeft when the client has
        gone.
        """
        if self._free <= 0:
            raise _busy()
        self._free -= 1
        left = asyncio.ensure_future(gone(request))
        taken: list[asyncio.Semaphore] = []
        try:
            for places in (self._of_statements, self._places) if is_statement else (self._places,):
                await self._place(left, places)
                taken.append(places)
            return await self._timed(left, work)
        finally:
            for places in taken:
                places.release()
            left.cancel()
            self._free += 1

    async def _place(self, left: asyncio.Future[None], places: asyncio.Semaphore) -> None:
        """Wait for a place, as long as the client does."""
        place = asyncio.ensure_future(places.acquire())
        waited: set[asyncio.Future[Any]] = {place, left}
        try:
            await asyncio.wait(waited, timeout=self.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            _give_back(place, places)
            raise
        if left.done():
            _give_back(place, places)
            raise ClientLeft
        if not place.done():
            place.cancel()
            raise _busy()

    async def _timed(self, left: asyncio.Future[None], work: Callable[[Stop], T]) -> T:
        stop = Stop()
        working = asyncio.get_running_loop().run_in_executor(self._threads, work, stop)
        waited: set[asyncio.Future[Any]] = {working, left}
        await asyncio.wait(waited, timeout=self.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        stop.now()
        with suppress(Exception):
            await working
        if left.done():
            raise ClientLeft
        raise Problem(
            504, "Took too long", f"stopped after {self.timeout_s:g} s: narrow the range or ask for less"
        )

    def close(self) -> None:
        """Let running works end; nothing new is taken."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _busy() -> Problem:
    return Problem(503, "Busy", "too many questions at once: ask again in a second", {"Retry-After": "1"})


def _give_back(place: asyncio.Future[Any], places: asyncio.Semaphore) -> None:
    """Give a place back that came too late, or stop waiting for it."""
    if place.done() and not place.cancelled():
        places.release()
    else:
        place.cancel()


def gone(request: Request) -> Coroutine[Any, Any, None]:
    """Return what ends when the client closes the connection."""

    async def wait() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return wait()

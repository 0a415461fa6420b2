"""Run of a program of its own: its end, and its heartbeat meanwhile."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lakehouse.storage.heartbeats import BEAT_S, Heartbeat, write_heartbeat
from lakehouse.storage.layout import Home

Tell = Callable[[str], None]


def now_us() -> int:
    """Return the wall clock in microseconds UTC."""
    return time.time_ns() // 1000


@contextmanager
def until_stopped(seconds: float | None = None) -> Iterator[Callable[[], bool]]:
    """Give a function that tells whether to stop: after SIGTERM or SIGINT, or after so many seconds.

    A second SIGINT interrupts at once.
    """
    stopping = False
    end = None if seconds is None else time.monotonic() + seconds

    def stop(number: int, _: object) -> None:
        nonlocal stopping
        if stopping and number == signal.SIGINT:
            raise KeyboardInterrupt
        stopping = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: stopping or (end is not None and time.monotonic() >= end)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class Pulse:
    """Heartbeat of a bridge or collector: counts, every few seconds."""

    layout: Home
    kind: str
    stream: str
    state: str = "connecting"
    messages: int = 0
    repeated: int = 0
    files: int = 0
    waiting_bytes: int = 0
    last_message: str | None = None
    note: str = ""
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    _due: float = 0.0

    def beat(self, force: bool = False) -> None:
        """Write a heartbeat when one is due, or at once."""
        if not force and time.monotonic() < self._due:
            return
        self._due = time.monotonic() + BEAT_S
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        names = ("last_message", "messages", "repeated", "files", "waiting_bytes")
        figures = {name: getattr(self, name) for name in names}
        process = (self.kind, self.stream, self.state, at, self.started, os.getpid(), self.note)
        write_heartbeat(self.layout, Heartbeat(*process, figures))

    def turn(self, state: str, note: str = "") -> None:
        """Change the state, and say so at once."""
        self.state, self.note = state, note
        self.beat(force=True)

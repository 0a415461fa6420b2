"""Heartbeats as rows of the database that several machines share, written beside the work of who sends them.

A bridge lands messages while the database is away, and only a thread waits for one that hangs. The thread has a session
of its own: what goes wrong with a heartbeat says nothing of leases. Cost: a round trip every ``EVERY_S`` at most, with
the newest heartbeat.
"""

import logging
import os
import threading
from functools import lru_cache

from lakehouse.storage.control.place import NAME, place_of
from lakehouse.storage.control.session import Session
from lakehouse.storage.control.store import SharedStore, store_of
from lakehouse.storage.layout import Home

log = logging.getLogger(__name__)
# A change of state is written at once.
EVERY_S = 5.0
# How long a process that ends waits for its last heartbeat to be written.
_LAST_S = 5.0
_KEEP = (
    "INSERT INTO tidemark_heartbeats VALUES (:home, :kind, :stream, :heartbeat) "
    "ON CONFLICT (home, kind, stream) DO UPDATE SET heartbeat = excluded.heartbeat"
)
_ALL = "SELECT kind, stream, heartbeat FROM tidemark_heartbeats WHERE home = :home ORDER BY stream, kind"
Who = tuple[str, str]


def send(home: Home, who: Who, state: str, heartbeat: str) -> None:
    """Let the heartbeat of a service, bridge or collector, by kind and stream, be written soon.

    A process that stops waits for its last one, for some seconds.
    """
    _sender(home, os.getpid()).put(who, state, heartbeat)


def sent(home: Home) -> list[tuple[str, str, str]]:
    """Return kind, stream and JSON of each heartbeat of a home.

    Raises ControlUnreachable when the database does not answer.
    """
    return [(kind, stream, text) for kind, stream, text in store_of(home).rows(_ALL)]


class _Sender:
    """The thread of this process that writes the newest heartbeats of a home."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._newest: dict[Who, str] = {}
        self._states: dict[Who, str] = {}
        self._one_at_a_time = threading.Lock()
        self._due, self._is_written = threading.Event(), threading.Event()
        self._store: SharedStore | None = None
        self._is_away = False
        threading.Thread(target=self._send, daemon=True, name="heartbeats").start()

    def put(self, who: Who, state: str, heartbeat: str) -> None:
        with self._one_at_a_time:
            self._newest[who] = heartbeat
            self._is_written.clear()
        if state != self._states.get(who):
            self._states[who] = state
            self._due.set()
        if state in ("stopped", "failed"):
            self._is_written.wait(_LAST_S)

    def _send(self) -> None:
        while True:
            self._due.wait(EVERY_S)
            self._due.clear()
            with self._one_at_a_time:
                taken, self._newest = self._newest, {}
            self._write(taken)
            with self._one_at_a_time:
                if not self._newest:
                    self._is_written.set()

    def _write(self, heartbeats: dict[Who, str]) -> None:
        try:
            for (kind, stream), text in heartbeats.items():
                self._opened().change(_KEEP, kind=kind, stream=stream, heartbeat=text)
        except Exception as error:
            # Whatever it is, it must not end the thread: the database, or the store with the home's identity, is away.
            if not self._is_away:
                log.warning("other machines see no heartbeat of this process: %s", error)
            self._is_away = True
        else:
            if self._is_away and heartbeats:
                log.warning("other machines see heartbeats of this process again")
                self._is_away = False

    def _opened(self) -> SharedStore:
        if self._store is None:
            place = place_of(self._home, self._home.root / NAME)
            assert place is not None
            self._store = SharedStore(Session(place.session.url), place.id)
        return self._store


@lru_cache(16)
def _sender(home: Home, _process: int) -> _Sender:
    return _Sender(home)

"""Leases in a database: locks of one session for each process, and a number for each time that a lease is taken.

Postgres drops an advisory lock with its session: when the process dies, when its machine is not heard of, and when the
process was paused for longer than ``SILENT_S``. A process that was paused does not know that it has lost its leases, so
whoever is about to write asks whether the session lives (``require``): while it does, nobody else holds them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from lakehouse.storage.control.database import ControlUnreachable, connect, masked, told
from lakehouse.storage.control.local import Change
from lakehouse.storage.control.schema import create_tables, version_of

if TYPE_CHECKING:
    from sqlalchemy import Connection


# After so long without a word from its process a session ends; a thread says one several times in it.
SILENT_S = 60
_WORD_S = 12
_LOCKED = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND "
    "(classid::bigint << 32) | objid::bigint = :key AND "
    "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_TAKE = (
    "INSERT INTO tidemark_leases AS l VALUES (:home, :name, 1, :holder) "
    "ON CONFLICT (home, name) DO UPDATE SET fence = l.fence + 1, holder = :holder RETURNING fence"
)
_HOLDER = "SELECT holder FROM tidemark_leases WHERE home = :home AND name = :name"
_GIVE = "UPDATE tidemark_leases SET holder = NULL WHERE home = :home AND name = :name AND fence = :fence"
T = TypeVar("T")


class LeaseLost(RuntimeError):
    """The database has ended the session that held this process's leases: another process may write now."""


@dataclass(frozen=True)
class Taken:
    """A lease that was taken: its ``fence`` grows with each holder; ``is_clean``: the one before gave it back."""

    fence: int
    is_clean: bool


class Session:
    """The session of this process with one control store, opened when it is first asked something."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.held: dict[tuple[str, str], int] = {}
        self._connection: Connection | None = None
        self._is_lost = False
        self._one_at_a_time = threading.RLock()
        self._ended = threading.Event()

    def take(self, home: str, name: str, holder: str) -> Taken | None:
        """Take a lease of a home; None when somebody holds it."""
        with self._one_at_a_time:
            # A session may lock twice what it has locked.
            if (home, name) in self.held:
                return None
            if not self._ask(lambda: self._value("SELECT pg_try_advisory_lock(:key)", key=_key(home, name))):
                return None
            try:
                before = self._value(_HOLDER, home=home, name=name)
                fence = int(self._value(_TAKE, home=home, name=name, holder=holder))
            except ControlUnreachable:
                # The lock goes with the session, now or when the leases are given back that it holds.
                if not self.held:
                    self._close()
                raise
            self.held[home, name] = fence
            if len(self.held) == 1:
                self._ended = threading.Event()
                threading.Thread(target=self._say_words, args=(self._ended,), daemon=True).start()
            return Taken(fence, before is None)

    def give_back(self, home: str, name: str, *, is_clean: bool = True) -> None:
        """Give a lease back.

        ``is_clean`` is false where whoever takes it next must seal what it protects. Raises LeaseLost when it was
        lost.
        """
        with self._one_at_a_time:
            try:
                self.require()
                if is_clean:
                    self._run(_GIVE, home=home, name=name, fence=self.held[home, name])
                self._value("SELECT pg_advisory_unlock(:key)", key=_key(home, name))
            except ControlUnreachable as error:
                raise self._lost(error) from None
            finally:
                del self.held[home, name]
                if not self.held:
                    self._ended.set()
                    if self._is_lost:
                        self._close()

    def holder(self, home: str, name: str) -> str:
        """Return what the holder of a lease says of itself, nothing where there is none."""
        with self._one_at_a_time:
            return str(self._ask(lambda: self._value(_HOLDER, home=home, name=name)) or "")

    def is_held(self, home: str, name: str) -> bool:
        """Return whether a process holds a lease now."""
        with self._one_at_a_time:
            return bool(self._ask(lambda: self._value(_LOCKED, key=_key(home, name))))

    def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a question."""
        with self._one_at_a_time:
            return [tuple(row) for row in self._ask(lambda: self._run(statement, **values)).all()]

    def change(self, statement: str, **values: Any) -> int:
        """Change rows; return how many. Of a statement that was cut off and is run again, only the second time."""
        with self._one_at_a_time:
            return int(self._ask(lambda: self._run(statement, **values)).rowcount)

    def transact(self, changes: Sequence[Change]) -> None:
        """Make changes in one transaction, unless this process has lost its leases.

        Raises LeaseLost when it has; FileExistsError when a row that should be new is there.
        """
        with self._one_at_a_time:
            self.require()
            self._ask(lambda: self._run_all(changes))

    def _run_all(self, changes: Sequence[Change]) -> None:
        self._run("BEGIN")
        try:
            for statement, rows in changes:
                if rows:
                    self._execute(statement, list(rows))
            self._run("COMMIT")
        except BaseException:
            with suppress(ControlUnreachable):
                self._run("ROLLBACK")
            raise

    def require(self) -> None:
        """Make sure that this process has every lease that it took, at the cost of one round trip.

        Raises LeaseLost when the session has ended.
        """
        with self._one_at_a_time:
            if not self.held:
                return
            try:
                self._value("SELECT 1")
            except ControlUnreachable as error:
                raise self._lost(error) from None

    def _lost(self, error: ControlUnreachable) -> LeaseLost:
        held = ", ".join(f"{name} (number {fence})" for (_, name), fence in self.held.items())
        return LeaseLost(
            f"this process has lost its leases on {held}: {error}; what it had not committed is not written: "
            "run it again"
        )

    def _say_words(self, ended: threading.Event) -> None:
        """Keep the session from being taken for that of a process that is no more."""
        while not ended.wait(_WORD_S):
            with self._one_at_a_time, suppress(LeaseLost):
                if not ended.is_set():
                    self.require()

    def _ask(self, question: Callable[[], T]) -> T:
        """Ask, on a new session where the one before has ended and held nothing."""
        try:
            return question()
        except ControlUnreachable:
            if self.held:
                raise
            self._close()
            return question()

    def _value(self, statement: str, **values: Any) -> Any:
        return self._run(statement, **values).scalar()

    def _run(self, statement: str, **values: Any) -> Any:
        return self._execute(statement, values)

    def _execute(self, statement: str, values: Any) -> Any:
        from sqlalchemy import text

        if self._is_lost:
            raise ControlUnreachable(
                f"control store {masked(self.url)}: it has ended the session of this process"
            )
        try:
            with told(self.url):
                return self._open().execute(text(statement), values)
        except ControlUnreachable:
            # Whatever went wrong: who holds leases must not go on as if nothing had.
            self._is_lost = bool(self.held)
            raise

    def _open(self) -> Connection:
        from sqlalchemy import text

        if self._connection is None:
            connection = connect(self.url)
            # Machines that vanish are found by keepalives; processes that were paused, by their silence.
            for name, value in (
                ("idle_session_timeout", SILENT_S * 1000),
                ("tcp_keepalives_idle", 15),
                ("tcp_keepalives_interval", 5),
                ("tcp_keepalives_count", 3),
            ):
                connection.execute(text(f"SET {name} = {value}"))
            create_tables(connection)
            self._connection = connection
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
        self._connection, self._is_lost = None, False


# One for each process and database: its locks are the session's, so that another one would not have them.
_SESSIONS: dict[tuple[int, str], Session] = {}
_OPENING = threading.Lock()


def session_of(url: str) -> Session:
    """Return this process's session with a control store; a forked child has its own."""
    own = (os.getpid(), url)
    with _OPENING:
        if own not in _SESSIONS:
            _SESSIONS[own] = Session(url)
        return _SESSIONS[own]


def sessions() -> list[Session]:
    """Return the sessions of this process."""
    return [session for (process, _), session in list(_SESSIONS.items()) if process == os.getpid()]


def examined(url: str) -> str:
    """Return where a control store is and what it runs on; its tables are created.

    Raises ControlUnreachable when it refuses, or does not answer; OtherVersion when its tables are of another
    version.
    """
    from sqlalchemy import text

    with told(url), connect(url) as connection:
        if (connection.dialect.server_version_info or (0,)) < (14,):
            raise ControlUnreachable(f"control store {masked(url)}: expected PostgreSQL 14 or later")
        create_tables(connection)
        server = connection.execute(text("SHOW server_version")).scalar()
        return f"{masked(url)}, PostgreSQL {server}, tables of version {version_of(connection)}"


def _key(home: str, name: str) -> int:
    """Return the number of a lease among all locks of a database."""
    return int.from_bytes(blake2b(f"{home}/{name}".encode(), digest_size=8).digest(), "big", signed=True)

"""A lease on a table, so that only one process at a time writes it; everything that changes a table takes it.

On one machine a lease is the kernel's lock on a file, which names the holder. Only its owner can access the folders
of a home, so no other user can take a lease. If several machines share the home, the lease is a lock in the database
of the control store.

A process that holds a lease waits for another one in this order only, or two would wait for each other:

    the turn of a job     never waited for (``turn``)
    serving               the published file
    raw                   of a stream
    rollup                of a stream, of several in the order of their declaration
    repairs               of a query
    queries               of a query, of several in the order of their group (``scan_group``)
    suspects              batches that may end their process
    files of a table      ``files_of``
    quality, reports      what all streams share

Against this order it may try a lease, without waiting.
"""

import fcntl
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TextIO, TypeVar

from lakehouse.storage.control.place import Place, place_of, require_own
from lakehouse.storage.control.seal import seal_tables
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.tables_place import record

log = logging.getLogger(__name__)
T = TypeVar("T")
# How long a job waits for a table that a job of another kind writes: a publish or a batch takes seconds, and who waits
# for longer keeps others from starting.
WAIT_S = 120.0
# A merge of files takes a minute for every few ten millions of rows that came in since the last.
MERGE_S = 1800.0
_ASK_AGAIN_S = 0.2
# The longest part of a holder's command line that is shown.
_LONGEST = 200


class LeaseHeld(RuntimeError):
    """Another process writes this table now."""


@contextmanager
def lease(home: Home, table: Location, timeout_s: float = 0) -> Iterator[None]:
    """Hold a table, or another path, for one writer; the lock ends with the process, however that ends.

    The home of a table on a store notes the store, so that readers find it. Raises LeaseHeld if another process holds
    it for longer than ``timeout_s``; LeaseLost if the database of a control store has ended this process's session
    meanwhile; ControlUnreachable if that database does not answer.
    """
    place = place_of(home, table)
    if (store := home.on_store) and table.is_relative_to(store):
        if place is None:
            require_own(home.root, store)
        record(home.root, store)
    with _in_database(place, timeout_s) if place else _by_the_kernel(home.folder_of(table), timeout_s):
        yield


@contextmanager
def turn(home: Home, table: Location, job: str, timeout_s: float = WAIT_S) -> Iterator[None]:
    """Hold a table as the only process that does this job on it; jobs of other kinds are waited for.

    Raises LeaseHeld at once if another process does the same job, which will have done it; or if one of another kind
    holds the table for longer than ``timeout_s``.
    """
    with lease(home, table.parent / f"{table.name}.{job}"), lease(home, table, timeout_s):
        yield


@contextmanager
def _in_database(place: Place, timeout_s: float) -> Iterator[None]:
    from lakehouse.storage.control.session import LeaseLost

    session, own = place.session, _this_process(f" on {socket.gethostname()}")

    def holder() -> str:
        told = session.holder(place.id, place.name)
        return f"{place.home.root / place.name}: another process writes this table now{told and ': '}{told}"

    taken = _taken(lambda: session.take(place.id, place.name, own), timeout_s, holder)
    try:
        if not taken.is_clean:
            seal_tables(place, taken.fence)
    except BaseException:
        session.give_back(place.id, place.name, is_clean=False)
        raise
    try:
        yield
    except BaseException:
        # Report the first error, not that the lease is lost too.
        with suppress(LeaseLost):
            session.give_back(place.id, place.name)
        raise
    session.give_back(place.id, place.name)


@contextmanager
def _by_the_kernel(table: Path, timeout_s: float) -> Iterator[None]:
    table.parent.mkdir(parents=True, exist_ok=True)
    path = _file(table)
    # A waiting process must not delete the name of the holder.
    with path.open("a+", encoding="utf-8") as file:
        holder = partial(_holder, table, file)
        _taken(lambda: _is_locked(file) or None, timeout_s, holder)
        file.truncate(0)
        file.write(_this_process())
        file.flush()
        yield


def _taken(take: Callable[[], T | None], timeout_s: float, holder: Callable[[], str]) -> T:
    """Return what ``take`` does once it does; raise LeaseHeld if it returns None for too long."""
    end, is_told = time.monotonic() + timeout_s, False
    while (taken := take()) is None:
        if time.monotonic() >= end:
            raise LeaseHeld(f"{holder()}; wait for it, or stop it")
        if not is_told:
            log.info("%s; it is waited for, for at most %.0f s", holder(), timeout_s)
            is_told = True
        time.sleep(_ASK_AGAIN_S)
    return taken


def files_of(table: Location) -> Location:
    """Return the lease for merging small files of a table, beside which its writer may append.

    A process that deletes rows holds this lease too, because only appends cannot conflict with a merge.
    """
    return table.parent / f"{table.name}.files"


def is_held(home: Home, table: Location) -> bool:
    """Return whether a process holds a table now; the question itself holds it for an instant only."""
    place = place_of(home, table)
    if place is not None:
        return place.session.is_held(place.id, place.name)
    try:
        with _file(home.folder_of(table)).open() as file:
            # Shared, so that any number can ask at once.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _file(table: Path) -> Path:
    return table.parent / f".{table.name}.lease"


def _this_process(where: str = "") -> str:
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    since = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    return f"process {os.getpid()}{where} ({command[:_LONGEST]}, since {since})"


def _holder(table: Path, file: TextIO) -> str:
    """Return that a table is held, and by which process, as far as its locked file names it."""
    file.seek(0)
    told = file.read()
    return f"{table}: another process writes this table now{told and ': '}{told}"


def _is_locked(file: TextIO) -> bool:
    """Try to lock a file; return whether that succeeded."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

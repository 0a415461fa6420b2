"""A lease on a table, so that one process at a time writes it; whoever changes a table by other means takes it too."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LeaseHeld(RuntimeError):
    """Another process writes this table now."""


@contextmanager
def lease(table: Path) -> Iterator[None]:
    """Hold a table for one writer; the lock goes with the process, however it ends.

    Raises:
        LeaseHeld: at once, when another process holds it.
    """
    table.parent.mkdir(parents=True, exist_ok=True)
    path = table.parent / f".{table.name}.lease"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = (
                f"{table}: another process writes this table now; wait for it, or stop it (lease {path})"
            )
            raise LeaseHeld(message) from None
        yield

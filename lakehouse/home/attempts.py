"""How often the batch that a stream takes in now has failed: written before each attempt, so that a death counts too.

    {"batch", "failed", "running", "steps", "error"} of each stream, in the control store

An attempt is ``running`` until its batch is finished or it has failed; one that runs while nobody holds the stream's
lease ended with its process. A batch that came further than before (``steps``) begins to count anew.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from lakehouse.home.control.store import store_of
from lakehouse.home.layout import Home

_KEEP = (
    "INSERT INTO tidemark_attempts VALUES (:home, :stream, :attempts) "
    "ON CONFLICT (home, stream) DO UPDATE SET attempts = excluded.attempts"
)
_OF_STREAM = "SELECT attempts FROM tidemark_attempts WHERE home = :home AND stream = :stream"
DIED = "the process that took it in ended in the midst of it"


@dataclass(frozen=True)
class Attempts:
    """The attempts at one batch: how many ``failed`` after ``steps`` of its commits, and the ``error`` of the last."""

    batch: int
    failed: int = 0
    running: bool = False
    steps: int = 0
    error: str = ""


def read_attempts(layout: Home, stream: str, batch: int) -> Attempts:
    """Return the attempts at a batch that have ended; whoever asks holds the lease of the stream's raw table."""
    found = _read(layout, stream)
    if found is None or found.batch != batch:
        return Attempts(batch)
    return _failed(found, DIED) if found.running else found


def begin_attempt(layout: Home, stream: str, before: Attempts) -> None:
    """Write down that another attempt begins."""
    _write(layout, stream, replace(before, running=True))


def end_attempt(layout: Home, stream: str, before: Attempts, error: str | None) -> Attempts:
    """Write down that an attempt failed with an error, or that it was given up for no fault of its batch (None)."""
    after = before if error is None else _failed(before, error)
    _write(layout, stream, after)
    return after


def forgive_attempt(layout: Home, stream: str) -> None:
    """Write down that the attempt that runs now is cut off on purpose: its end is no failure."""
    found = _read(layout, stream)
    if found is not None:
        _write(layout, stream, replace(found, running=False))


def _failed(before: Attempts, error: str) -> Attempts:
    return replace(before, failed=before.failed + 1, running=False, error=error)


def _read(layout: Home, stream: str) -> Attempts | None:
    for (attempts,) in store_of(layout.root).rows(_OF_STREAM, stream=stream):
        return Attempts(**json.loads(attempts))
    return None


def _write(layout: Home, stream: str, attempts: Attempts) -> None:
    store_of(layout.root).change(_KEEP, stream=stream, attempts=json.dumps(asdict(attempts)))

"""Failed attempts of a stream's present batch: written before each attempt, so that a death counts too.

    attempts/<stream>.json    {"batch", "failed", "running", "steps", "error"}

It is a file also where several machines share the home: that a batch failed because their database was away, which is
no fault of the batch, has to be written while it is away. An attempt is ``running`` until its batch is finished or it
has failed; one that runs while nobody holds the stream's lease ended with its process. A batch that came further than
before (``steps``) begins to count anew.
"""

import json
from dataclasses import asdict, dataclass, replace

from lakehouse.storage.atomic_files import write_json
from lakehouse.storage.layout import Home

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
    try:
        found = Attempts(**json.loads(layout.attempts(stream).read_text("utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return Attempts(batch)
    if found.batch != batch:
        return Attempts(batch)
    return _failed(found, DIED) if found.running else found


def begin_attempt(layout: Home, stream: str, before: Attempts) -> None:
    """Write down that another attempt begins."""
    write_json(layout.attempts(stream), asdict(replace(before, running=True)))


def end_attempt(layout: Home, stream: str, before: Attempts, error: str | None) -> Attempts:
    """Write down that an attempt failed with an error, or that it was given up for no fault of its batch (None)."""
    after = before if error is None else _failed(before, error)
    write_json(layout.attempts(stream), asdict(after))
    return after


def forgive_attempt(layout: Home, stream: str) -> None:
    """Write down that the attempt that runs now is cut off on purpose: its end is no failure."""
    path = layout.attempts(stream)
    if path.exists():
        write_json(path, json.loads(path.read_text("utf-8")) | {"running": False})


def _failed(before: Attempts, error: str) -> Attempts:
    return replace(before, failed=before.failed + 1, running=False, error=error)

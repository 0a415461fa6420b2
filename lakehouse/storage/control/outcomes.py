"""Outcome of the last run of each job, one row by job and stream, so that a status needs neither JVM nor scheduler.

{"job", "stream", "ok", "started", "ended", "seconds", "figures", "error"}, in the control store
"""

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from lakehouse.storage.control.database import ControlUnreachable
from lakehouse.storage.control.store import store_of
from lakehouse.storage.damaged import DamagedFile
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import commit_at

log = logging.getLogger(__name__)
_KEEP = (
    "INSERT INTO tidemark_outcomes VALUES (:home, :job, :stream, :outcome) "
    "ON CONFLICT (home, job, stream) DO UPDATE SET outcome = excluded.outcome"
)
_OF_JOB = "SELECT outcome FROM tidemark_outcomes WHERE home = :home AND job = :job AND stream = :stream"
_ALL = "SELECT outcome FROM tidemark_outcomes WHERE home = :home ORDER BY job, stream"
_FORGET = "DELETE FROM tidemark_outcomes WHERE home = :home AND job = :job AND stream = :stream"
_OF_STACK = re.compile(r"\s+(at \S+\(.*\)|\.\.\. \d+ more)$")


def record(
    layout: Home,
    job: str,
    stream: str,
    ok: bool,
    started: datetime,
    seconds: float,
    figures: Mapping[str, Any],
    error: str | None = None,
) -> dict[str, Any]:
    """Keep and return one outcome; ``started`` has a time zone. A job over all streams gives ``all`` as its stream.

    One that cannot be kept is logged: what it tells of is done, or has failed with an error of its own.
    """
    outcome = {
        "job": job,
        "stream": stream,
        "ok": ok,
        "started": _iso(started),
        "ended": _iso(started + timedelta(seconds=seconds)),
        "seconds": round(seconds, 3),
        "figures": dict(figures),
        "error": error,
    }
    # Values that JSON has no type for, such as a path, become text.
    text = json.dumps(outcome, default=str)
    try:
        store_of(layout).change(_KEEP, job=job, stream=stream, outcome=text)
    except (ControlUnreachable, DamagedFile, OSError) as failure:
        log.error("how %s %s ended could not be kept: %s", job, stream, failure)
    return outcome


def last_outcome(layout: Home, job: str, stream: str) -> dict[str, Any] | None:
    """Return how a job last ended for a stream, None where it never did."""
    for (outcome,) in store_of(layout).rows(_OF_JOB, job=job, stream=stream):
        found: dict[str, Any] = json.loads(outcome)
        return found
    return None


def has_run_since(layout: Home, job: str, stream: str, table: Location, version: int) -> bool:
    """True if a job has begun after a commit of a table and ended well: no kill or failure has come in between.

    Of a commit that is no longer in the table's log, any such run counts; before the first one none is due.
    """
    if version == 0:
        return True
    last = last_outcome(layout, job, stream)
    if last is None or not last["ok"]:
        return False
    try:
        committed_s = commit_at(table, version).stat().st_mtime
    except FileNotFoundError:
        return True
    return datetime.fromisoformat(last["started"]).timestamp() >= committed_s


def read_all(layout: Home) -> list[dict[str, Any]]:
    """Return every job's last outcome, the earliest ended first."""
    found = (json.loads(outcome) for (outcome,) in store_of(layout).rows(_ALL))
    return sorted(found, key=lambda outcome: outcome["ended"])


def forget_outcome(layout: Home, job: str, stream: str) -> None:
    """Forget how a job last ended for a stream."""
    store_of(layout).change(_FORGET, job=job, stream=stream)


def error_text(error: BaseException) -> str:
    """Return the message and the notes of an error for people, without the JVM's stacks; what caused them stays."""
    said = str(error).split("\n\nJVM stacktrace:")[0].strip()
    text = "\n".join(line for line in said.splitlines() if not _OF_STACK.match(line))
    ours = type(error).__module__.partition(".")[0] in ("jobs", "lakehouse", "quality")
    text = text if ours and text else f"{type(error).__name__}: {text}".removesuffix(": ")
    return "\n".join([text, *getattr(error, "__notes__", ())])


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")

"""How each job last ended, one small file per job and stream, so that a status needs neither JVM nor scheduler.

    runs/<job>-<stream>.json    {"job", "stream", "ok", "started", "ended", "seconds", "figures", "error"}

A file is replaced as a whole: a reader sees the outcome before or after, never half of one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakehouse.home.atomic_files import write_json
from lakehouse.home.layout import Home

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
    """Write and return one outcome; ``started`` has a time zone. A job over all streams gives ``all`` as its stream."""
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
    write_json(layout.runs / f"{job}-{stream}.json", outcome)
    return outcome


def last_outcome(layout: Home, job: str, stream: str) -> dict[str, Any] | None:
    """Return how a job last ended for a stream, None where it never did."""
    path = layout.runs / f"{job}-{stream}.json"
    return _read(path) if path.exists() else None


def read_all(layout: Home) -> list[dict[str, Any]]:
    """Return every job's last outcome, the earliest ended first; a file that is no outcome counts as a failed one."""
    found = [_read(path) for path in sorted(layout.runs.glob("*.json")) if not path.name.startswith(".")]
    return sorted(found, key=lambda outcome: outcome["ended"])


def error_text(error: BaseException) -> str:
    """Return the message of an error for people, without the JVM's stacks; what they were caused by stays."""
    said = str(error).split("\n\nJVM stacktrace:")[0].strip()
    text = "\n".join(line for line in said.splitlines() if not _OF_STACK.match(line))
    ours = type(error).__module__.partition(".")[0] in ("jobs", "lakehouse", "quality")
    return text if ours and text else f"{type(error).__name__}: {text}".removesuffix(": ")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        content = {"error": f"{path}: expected the outcome of a job as JSON: {error}"}
    job, _, stream = path.stem.rpartition("-")
    blank = {
        "job": job,
        "stream": stream,
        "ok": False,
        "started": "",
        "ended": "",
        "seconds": 0.0,
        "figures": {},
    }
    return blank | {"error": None} | (content if isinstance(content, dict) else {})


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")

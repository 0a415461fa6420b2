"""Signs of life of what runs on its own, bridges and collectors, so that a status can tell without asking them.

    runs/live/<kind>-<stream>.json    one Beat, replaced as a whole every few seconds

A process that died says nothing: whose last beat is old is *silent*.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakehouse.home.layout import Home

# A beat comes every BEAT_S seconds; after SILENT_S without one nobody is there.
BEAT_S, SILENT_S = 5.0, 30.0


@dataclass(frozen=True)
class Beat:
    """What one bridge or collector has done since it started.

    ``state``: connecting, running, stopped or failed. ``waiting_bytes`` are safe on disk, in a file that has not
    landed yet. ``note`` is what keeps it from its work, or why it ended.
    """

    kind: str
    stream: str
    state: str
    at: str
    started: str
    last_message: str | None = None
    messages: int = 0
    repeated: int = 0
    files: int = 0
    waiting_bytes: int = 0
    note: str = ""


def write_beat(layout: Home, beat: Beat) -> None:
    """Put a beat in place of the one before."""
    target = layout.live / f"{beat.kind}-{beat.stream}.json"
    scratch = layout.live / f".{target.name}.{os.getpid()}"
    layout.live.mkdir(parents=True, exist_ok=True)
    scratch.write_text(json.dumps(asdict(beat), ensure_ascii=False) + "\n", encoding="utf-8")
    scratch.replace(target)


def read_beats(layout: Home, now: datetime) -> list[dict[str, Any]]:
    """Return the last beat of each, by stream, with ``age_s``; one that should go on and is old is ``silent``."""
    found = [_read(path, now) for path in sorted(layout.live.glob("*.json")) if not path.name.startswith(".")]
    return sorted(found, key=lambda beat: (beat["stream"], beat["kind"]))


def _read(path: Path, now: datetime) -> dict[str, Any]:
    kind, _, stream = path.stem.partition("-")
    told = asdict(Beat(kind, stream, "silent", "", ""))
    try:
        told |= json.loads(path.read_text(encoding="utf-8"))
        told["age_s"] = round((now - datetime.fromisoformat(told["at"])).total_seconds(), 3)
    except (OSError, ValueError, TypeError) as error:
        return told | {"age_s": None, "note": f"{path}: expected a sign of life as JSON: {error}"}
    if told["state"] in ("connecting", "running") and told["age_s"] > SILENT_S:
        told["state"] = "silent"
    return told


def iso(time_us: int) -> str:
    """Return microseconds UTC as beats tell them."""
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="milliseconds")

"""What a service tells of itself while it runs, one small file, and whether one runs on a home now.

    service/heartbeat.json    when, which process, what each step does, how fresh what is published is

The file is replaced as a whole every second. Whether a service is alive is told by its lease, which goes with its
process; whether it gets on, by the age of the beat.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakehouse.home.layout import Home
from lakehouse.home.lease import is_held

OLD_S = 60.0
# How long jobs that people or schedules start beside a service wait for the table that it writes just then.
PATIENCE_S = 120.0
Facts = dict[str, Any]


def beat(layout: Home, facts: Mapping[str, Any]) -> None:
    """Write a heartbeat of now."""
    layout.service.mkdir(parents=True, exist_ok=True)
    scratch = layout.service / f".heartbeat.{os.getpid()}"
    scratch.write_text(json.dumps({"at": time.time(), **facts}, ensure_ascii=False), encoding="utf-8")
    scratch.replace(_file(layout))


def last_beat(layout: Home) -> Facts | None:
    """Return the last heartbeat with its age in seconds and ``is_alive``; None where there never was a service."""
    try:
        told = json.loads(_file(layout).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        told = {
            "at": 0.0,
            "state": "unknown",
            "error": f"{_file(layout)}: expected a heartbeat as JSON: {error}",
        }
    return {**told, "age_s": round(max(0.0, time.time() - told["at"]), 3), "is_alive": is_served(layout)}


def is_served(layout: Home) -> bool:
    """Return whether a service runs on this home now."""
    return is_held(layout.service)


def served_by(layout: Home) -> str | None:
    """Return a sentence that names the service that runs on this home, None where there is none."""
    if not is_served(layout):
        return None
    told = last_beat(layout) or {"pid": "unknown", "age_s": 0.0}
    who = f"process {told.get('pid')}, heartbeat {told['age_s']:.0f} s ago"
    return f"`tidemark serve` ({who}) does this on {layout.root}"


def patience_s(layout: Home) -> float:
    """Return how long a writer waits for a table: only where a service writes it every few seconds."""
    return PATIENCE_S if is_served(layout) else 0.0


def _file(layout: Home) -> Path:
    return layout.service / "heartbeat.json"

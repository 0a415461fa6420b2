"""Heartbeats of processes that run on their own: services, bridges and collectors, all in one form.

    heartbeats/<kind>.json, heartbeats/<kind>-<stream>.json    one Heartbeat, replaced as a whole every few seconds

Where a database keeps the home's leases, they are rows of it as well, which every machine reads; the files are then for
probes of the machine itself.

A process that died says nothing, so readers go by the age of its last heartbeat. A living service also
holds its lease, which ends with its process.
"""

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakehouse.storage.atomic_files import write_json
from lakehouse.storage.control.lease import is_held
from lakehouse.storage.control.place import is_shared
from lakehouse.storage.layout import Home

SERVICE = "service"
# Bridges and collectors write one every BEAT_S seconds; after SILENT_S without one nobody is there.
BEAT_S, SILENT_S = 5.0, 30.0
# A service writes one every second; after OLD_S without one it is stalled.
OLD_S = 60.0
_NO_FIGURES = {"last_message": None, "messages": 0, "repeated": 0, "files": 0, "waiting_bytes": 0}
_LONG_AGO = "1970-01-01T00:00:00.000+00:00"
Facts = dict[str, Any]


@dataclass(frozen=True)
class Heartbeat:
    """Last report of a process: its state, and figures of its kind.

    ``kind``: service, bridge or collect. ``stream``: empty for a service. ``state``: starting, connecting, running,
    stopping, stopped or failed. ``at`` and ``started`` are times in ISO 8601. ``note`` is what keeps it from its work,
    or why it ended. ``host`` is the name of its machine.
    """

    kind: str
    stream: str
    state: str
    at: str
    started: str
    pid: int
    note: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    host: str = field(default_factory=socket.gethostname)


def write_heartbeat(layout: Home, heartbeat: Heartbeat) -> None:
    """Put a heartbeat in place of the one before. A database that is away is told in the log, and waited for by nobody.

    Raises OSError when its file cannot be written.
    """
    fields = asdict(heartbeat)
    told = fields | dict(fields.pop("figures"))
    name = f"{heartbeat.kind}-{heartbeat.stream}" if heartbeat.stream else heartbeat.kind
    write_json(layout.heartbeats / f"{name}.json", told)
    if is_shared(layout):
        from lakehouse.storage.control.heartbeat_rows import send

        text = json.dumps(told, ensure_ascii=False, default=str)
        send(layout, (heartbeat.kind, heartbeat.stream), heartbeat.state, text)


def read_heartbeats(layout: Home, now: datetime) -> list[Facts]:
    """Return the last heartbeat of each bridge and collector, by stream, with ``age_s``.

    One that should go on and is old has the state ``silent``.
    """
    found = [_NO_FIGURES | _silent_when_old(each) for each in _all(layout, now) if each["kind"] != SERVICE]
    return sorted(found, key=lambda heartbeat: (heartbeat["stream"], heartbeat["kind"]))


def service_heartbeat(layout: Home) -> Facts | None:
    """Return the last heartbeat of the service with ``age_s`` and ``is_alive``; None where there never was one."""
    for each in _all(layout, datetime.now(UTC)):
        if each["kind"] == SERVICE:
            return each | {"is_alive": is_served(layout)}
    return None


def is_served(layout: Home) -> bool:
    """Return whether a service runs on this home now."""
    return is_held(layout, layout.service)


def served_by(layout: Home) -> str | None:
    """Return a sentence that names the service that runs on this home, None where there is none."""
    if not is_served(layout):
        return None
    heartbeat = service_heartbeat(layout) or {"pid": "unknown", "age_s": 0.0}
    where = f" on {heartbeat['host']}" if heartbeat.get("host") else ""
    who = f"process {heartbeat['pid']}{where}, heartbeat {heartbeat['age_s']:.0f} s ago"
    return f"`tidemark serve` ({who}) does this on {layout.root}"


def iso(time_us: int) -> str:
    """Return microseconds UTC as heartbeats write them."""
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="milliseconds")


def _all(layout: Home, now: datetime) -> list[Facts]:
    """Return every heartbeat with its age."""
    if is_shared(layout):
        from lakehouse.storage.control.heartbeat_rows import sent

        return [_told(kind, stream, text, now) for kind, stream, text in sent(layout)]
    return [_read(path, now) for path in layout.heartbeats.glob("[!.]*.json")]


def _read(path: Path, now: datetime) -> Facts:
    kind, _, stream = path.stem.partition("-")
    try:
        return _told(kind, stream, path.read_text(encoding="utf-8"), now, str(path))
    except (OSError, UnicodeDecodeError) as error:
        return _told(kind, stream, "", now, f"{path}: {error}")


def _told(kind: str, stream: str, text: str, now: datetime, place: str = "its row") -> Facts:
    """Return a heartbeat with its age; a text that is none is one that is very old."""
    found: Facts = {"kind": kind, "stream": stream, "state": "unknown", "at": _LONG_AGO, "started": _LONG_AGO}
    found |= {"pid": None, "note": "", "host": ""}
    try:
        found |= json.loads(text)
        return found | {"age_s": _age_s(found["at"], now)}
    except (ValueError, TypeError) as error:
        note = f"{place}: expected a heartbeat as JSON: {error}"
        return found | {"at": _LONG_AGO, "age_s": _age_s(_LONG_AGO, now), "note": note}


def _age_s(at: str, now: datetime) -> float:
    return round(max(0.0, (now - datetime.fromisoformat(at)).total_seconds()), 3)


def _silent_when_old(heartbeat: Facts) -> Facts:
    is_old = heartbeat["age_s"] > SILENT_S and heartbeat["state"] in ("connecting", "running")
    return heartbeat | ({"state": "silent"} if is_old or heartbeat["state"] == "unknown" else {})

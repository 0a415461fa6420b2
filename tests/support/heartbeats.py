"""Heartbeats as a service writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from lakehouse.storage.heartbeats import SERVICE, Heartbeat, write_heartbeat
from lakehouse.storage.layout import Home


def served(layout: Home, state: str = "running", pid: int = 1, age_s: float = 0.0, **figures: Any) -> None:
    """Write the heartbeat of a service, so many seconds ago."""
    at = (datetime.now(UTC) - timedelta(seconds=age_s)).isoformat(timespec="milliseconds")
    write_heartbeat(layout, Heartbeat(SERVICE, "", state, at, at, pid, figures=figures))

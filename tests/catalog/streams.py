"""Streams as a configuration declares them, one value changed at a time."""

from __future__ import annotations

from typing import Any

from lakehouse.catalog.stream import Stream

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND


def stream_of(**changes: Any) -> Stream:
    """Return a stream of readings with these values instead."""
    declared: dict[str, Any] = {
        "name": "readings",
        "event_time": {"column": "ts", "unit": "us"},
        "keys": ["device", "room"],
        "measures": ["temp"],
        "groupings": [["device"], []],
        "levels": ["1s for 1h", "1m for 2d", "1d forever"],
        "source": {"path": "landing/*", "format": "ndjson"},
        "columns": {"count": "int", "volts": {"type": "decimal", "decimals": 3}},
    }
    return Stream.model_validate(declared | changes)

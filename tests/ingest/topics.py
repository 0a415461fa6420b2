"""A stream of readings whose source is a topic, and how tests send to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.support.brokers.kafka import Message

if TYPE_CHECKING:
    pass

T0 = 1_600_000_000
CONFIG = """
home = "var"
[streams.readings]
event_time = {{ column = "ts", unit = "{unit}" }}
{stream}
keys = ["device"]
measures = ["temp"]
groupings = [["device"], []]
levels = ["1s for 1m", "10s for 10m", "1m forever"]
[streams.readings.source]
kind = "kafka"
servers = ["{servers}"]
topics = {topics}
{source}
[streams.readings.columns]
"""
IDENTITY = 'identity = ["device", "ts"]'


def declared(
    servers: str,
    topics: Sequence[str],
    source: str = 'format = "ndjson"',
    stream: str = "",
    columns: str = "",
    unit: str = "s",
) -> str:
    """Return the configuration of a stream that reads topics."""
    named = json.dumps(list(topics))
    parts = {"source": source, "stream": stream, "unit": unit}
    return CONFIG.format(servers=servers, topics=named, **parts) + columns


def reading(second: float, device: str = "a", temp: object = 20.5, **more: object) -> bytes:
    """Return a reading as JSON."""
    return json.dumps({"ts": T0 + second, "device": device, "temp": temp} | more).encode()


def sent(second: float, partition: int = 0, device: str = "a", **more: object) -> Message:
    """Return the message of a reading that was sent when it was measured."""
    value = reading(second, device, **more)
    return Message(value, partition=partition, time_ms=int((T0 + second) * 1000))

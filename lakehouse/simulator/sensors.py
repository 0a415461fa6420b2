"""The stream `telemetry`: devices in rooms that report temperature, humidity and battery, one JSON object a line."""

from typing import Any

import numpy as np

from lakehouse.simulator.arrays import integers, strings
from lakehouse.simulator.delays import RADIO_MS
from lakehouse.simulator.form import Form, milliseconds
from lakehouse.simulator.plan import DAY_US
from lakehouse.simulator.timeline import Timeline, regular

DEVICES_PER_ROOM = 5
_YEAR_US = 365 * DAY_US


def _columns(rng: np.random.Generator, timeline: Timeline, start_us: int, sources: int) -> dict[str, Any]:
    """Return hundredths of a degree, tenths of a per cent and millivolts; each device has a level of its own."""
    event_us, device = timeline.event_us, timeline.source
    day = np.sin(2 * np.pi * ((start_us + event_us) % DAY_US) / DAY_US - 2.2)
    temp = 17.5 + (device * 7919 % 31) / 10 + 3.5 * day + rng.normal(0, 0.3, len(device))
    humidity = np.clip(52.0 - 9.0 * day + rng.normal(0, 2.0, len(device)), 0, 100)
    drained = ((start_us + event_us) % _YEAR_US) / _YEAR_US
    battery = 3.6 - 0.5 * drained + rng.normal(0, 0.004, len(device))
    rooms = device // DEVICES_PER_ROOM
    return {
        "device": _names("sensor", sources).take(integers(device)),
        "location": _names("room", -(-sources // DEVICES_PER_ROOM)).take(integers(rooms)),
        "temp": np.rint(temp * 100).astype(np.int64),
        "humidity": np.rint(humidity * 10).astype(np.int64),
        "battery": np.rint(battery * 1000).astype(np.int64),
    }


def _names(kind: str, count: int) -> Any:
    return strings([f"{kind}-{number:03d}" for number in range(1, count + 1)])


SENSORS = Form(
    stream="telemetry",
    suffix=".ndjson",
    header=b"",
    template=(
        *(
            b'{"ts":',
            "ts",
            b',"received":',
            "received",
            b',"device":"',
            "device",
            b'","location":"',
            "location",
        ),
        *(b'","temp":', "temp", b',"humidity":', "humidity", b',"battery":', "battery", b"}\n"),
    ),
    measures={"temp": 2, "humidity": 1, "battery": 3},
    spoiled="temp",
    marked="location",
    null=b"null",
    word=b'"warm"',
    cut_at=40,
    tick_us=1000,
    delays_ms=RADIO_MS,
    timeline=regular,
    columns=_columns,
    times=milliseconds,
)

from __future__ import annotations

from typing import Any

import numpy as np

from lakehouse.simulator.plan import DAY_US
from lakehouse.simulator.sensors import SENSORS


def _day(sources: int) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    rng = np.random.default_rng(5)
    timeline = SENSORS.timeline(rng, 20_000, DAY_US, sources, 0.0, SENSORS.tick_us)
    return timeline.event_us, SENSORS.columns(rng, timeline, 0, sources)


def test_temperature_follows_the_day_and_humidity_goes_against_it() -> None:
    event_us, columns = _day(10)
    night, afternoon = event_us < DAY_US // 6, (event_us > DAY_US // 2) & (event_us < 2 * DAY_US // 3)

    assert columns["temp"][afternoon].mean() - columns["temp"][night].mean() > 300
    assert columns["humidity"][afternoon].mean() < columns["humidity"][night].mean()


def test_five_devices_share_a_room() -> None:
    _, columns = _day(12)
    rooms = dict(zip(columns["device"].to_pylist(), columns["location"].to_pylist(), strict=True))

    assert len(rooms) == 12
    assert rooms["sensor-001"] == rooms["sensor-005"] == "room-001"
    assert rooms["sensor-012"] == "room-003"

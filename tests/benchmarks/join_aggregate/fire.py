"""The building-fire query over real fires: from ignition to the first alarm.

Readings of at least 40 degrees beside readings of less than 20 % oxygen at one location within ten minutes, more than
five pairs of them, asked every 10 seconds (sql/queries/building_fire.sql). Readings come as the logger wrote them, ten
seconds at a time. ``seconds_to_alarm`` is from the lighting, as the events' file has it, to the first tick that alarms.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Rows, Shape
from lakehouse.algorithms.join_aggregate.online import Online
from tests.benchmarks import page
from tests.benchmarks.join_aggregate.run import SECOND
from tests.end_to_end.fires import Experiment, experiments, write_fires

REAL = Path(__file__).parents[4] / "shared" / "data"
SHAPE = Shape(attributes=((0,), (0,)), grouped=(True, False))
WINDOW, EVERY, PAIRS = 600 * SECOND, 10 * SECOND, 5


def figures(quick: bool) -> dict[str, Any]:
    """Return each fire's ignition, first alarm, and the seconds between; None where nothing ever alarms."""
    if not (REAL / "building-fire").is_dir():
        return {"fire_skipped": "absent beside this checkout: ../shared/data/building-fire"}
    fires = experiments(REAL)
    found = {fire.name: _fire(fire) for fire in (fires[:1] if quick else fires)}
    if not quick:
        heads = ["fire", "ignition", "first alarm", "location", "seconds to the alarm"]
        rows = [[name, *each.values()] for name, each in found.items()]
        page.write("join_aggregate", "fire", "Alarms of real fires", __doc__ or "", page.table(heads, rows))
    return {"fires": found}


def _fire(fire: Experiment) -> dict[str, Any]:
    rows, locations = _rows(fire)
    at, group = _first_alarm(rows)
    lit = round(fire.ignition.timestamp() * SECOND)
    return {
        "ignition": f"{fire.ignition:%F %T}",
        "first_alarm": str(np.datetime64(at, "us").astype("datetime64[s]")).replace("T", " ") if at else None,
        "location": locations[group] if at else None,
        "seconds_to_alarm": (at - lit) / SECOND if at else None,
    }


def _rows(fire: Experiment) -> tuple[Rows, list[str]]:
    """Return the readings that can join, in order of time, and the names of their locations."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name, duckdb.connect() as connection:
        write_fires([fire], Path(name))
        readings = connection.execute(f"""
            SELECT 0 AS side, epoch_us(ts), location FROM '{name}/heat/*.csv' WHERE temperature >= 40
            UNION ALL SELECT 1, epoch_us(ts), location FROM '{name}/oxygen/*.csv' WHERE percent < 20
        """).fetchall()
    readings = sorted((at, side, location) for side, at, location in readings)
    locations = sorted({location for _, _, location in readings})
    key = np.array([locations.index(location) for _, _, location in readings], np.int64)
    enter = np.array([at for at, _, _ in readings], np.int64)
    return Rows.of(
        [side for _, side, _ in readings], enter, enter + WINDOW, key[:, None], group=key
    ), locations


def _first_alarm(rows: Rows) -> tuple[int | None, int]:
    """Return the first tick with more than five pairs at a location, and the location; a call has ten seconds."""
    query = Online(SHAPE, "factorised", EVERY, 0)
    begin = 0
    for tick in np.unique(-(-rows.enter_us // EVERY)).tolist():
        end = int(np.searchsorted(rows.enter_us, tick * EVERY, side="right"))
        answered = query.process(rows[begin:end], tick * EVERY).answered
        begin = end
        alarming = np.flatnonzero(answered.results > PAIRS)
        if len(alarming):
            return int(answered.tick_us[alarming[0]]), int(answered.group[alarming[0], 0])
    return None, 0

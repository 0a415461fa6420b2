"""The histories that the rollup benchmarks run on: three real ones, one simulated with a heavy tail."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from lakehouse.simulator.timeline import irregular

REAL = Path(__file__).parents[4] / "shared" / "data"
SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND


class History(NamedTuple):
    """Rows of one series in order of time."""

    times: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


def water() -> History:
    """Two years of a house's water meter, litres a minute."""
    frames = [pd.read_csv(path) for path in (REAL / "smart-meter-water").glob("*.csv.gz")]
    return _history(pd.concat(frames), "unix_ts", SECOND, "avg_rate")


def climate() -> History:
    """Temperatures of all radio nodes in a building's rooms, about a row a second while recorded."""
    names = ["eid", "ms", "rel", "node", "temp", "hum", "l1", "l2", "occ", "act", "door", "win"]
    with tarfile.open(REAL / "room-climate" / "room_climate_location_A.tar.gz") as packed:
        files = [packed.extractfile(member) for member in packed if member.name.endswith(".csv")]
        frames = [pd.read_csv(io.BytesIO(file.read()), names=names) for file in files if file]
    return _history(pd.concat(frames), "ms", 1000, "temp")


def rooms() -> History:
    """CO2 of 23 office rooms for a week, 23 rows a minute."""
    frames = [pd.read_csv(path) for path in (REAL / "office-rooms").glob("*.csv.gz")]
    rows = pd.concat(frames)
    stamped = pd.to_datetime(rows["timestamp"]).to_numpy().astype("datetime64[us]").astype(np.int64)
    return _history(rows.assign(us=stamped), "us", 1, "co2")


def heavy_tailed() -> History:
    """A month of a network link: rows at random times with gaps, sizes without a finite variance."""
    rng = np.random.default_rng(11)
    times = irregular(rng, 1_000_000, 30 * DAY, 200, 0.02, 1).event_us + 1_600_000_000 * SECOND
    return History(times, np.round(rng.pareto(1.5, len(times)) * 1000))


HISTORIES: dict[str, Callable[[], History]] = {
    "smart-meter-water": water,
    "room-climate": climate,
    "office-rooms": rooms,
    "heavy-tailed": heavy_tailed,
}


@cache
def load(name: str) -> History | None:
    """Return a history, None where its files are absent."""
    if name != "heavy-tailed" and not (REAL / name).is_dir():
        return None
    return HISTORIES[name]()


def _history(rows: pd.DataFrame, time: str, unit_us: int, value: str) -> History:
    rows = rows.sort_values(time, kind="stable")
    times = rows[time].to_numpy().astype(np.int64) * unit_us
    return History(times, rows[value].to_numpy(np.float64))

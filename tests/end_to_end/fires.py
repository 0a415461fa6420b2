"""Real building fires as streams: one reading a row, from files with a column for each of some fifty channels.

The loggers of part 2 tell only the seconds since they were started: its experiments are put on days of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

# Where a channel's name says it is, and the name that a location has in both streams.
_LOCATION = r"^(Quad(?:rant)? [A-D]|Basement|Living Room|Kitchen|Dining Room|Bedroom [1-3])\b"
CHANNELS = {"heat": ("Temperature", "temperature"), "oxygen": ("Oxygen", "percent")}


@dataclass(frozen=True)
class Experiment:
    """One fire: its file, when its logger's seconds begin where the file does not say, and when it was lit."""

    name: str
    path: Path
    start: datetime | None
    ignition: datetime


def experiments(data: Path) -> list[Experiment]:
    """Return every fire of both parts in order of time."""
    found = []
    for events in sorted((data / "building-fire").glob("*/*_Events.csv.gz")):
        path = events.with_name(events.name.replace("_Events", ""))
        name = path.name.removesuffix(".csv.gz")
        number = name.rpartition("_")[2]
        start = datetime(2019, 6, int(number), tzinfo=UTC) if events.parent.name == "hvac" else None
        found.append(Experiment(name, path, start, _ignition(events, start)))
    return sorted(found, key=lambda each: each.ignition)


def write_fires(fires: Sequence[Experiment], folder: Path) -> None:
    """Write ``heat`` and ``oxygen`` below a folder, a CSV file for each fire, as its logger gave the rows."""
    for number, fire in enumerate(fires):
        for stream, (channel, value) in CHANNELS.items():
            (folder / stream).mkdir(parents=True, exist_ok=True)
            with duckdb.connect() as connection:
                connection.execute(
                    f"COPY ({_readings(fire, channel, value)}) TO '{folder}/{stream}/{number:02d}_{fire.name}.csv'"
                )


def _readings(fire: Experiment, channel: str, value: str) -> str:
    time = (
        '"Timestamp"'
        if fire.start is None
        else f"TIMESTAMP '{fire.start:%F %T}' + to_seconds(CAST(Time AS INT))"
    )
    return f"""
        SELECT strftime({time}, '%Y-%m-%dT%H:%M:%S') AS ts, '{fire.name}' AS experiment,
            replace(regexp_extract(channel, '{_LOCATION}', 1), 'Quadrant', 'Quad') AS location,
            channel AS probe, {value}
        FROM (
            UNPIVOT (FROM read_csv('{fire.path}', nullstr = ['', 'NaN'], sample_size = -1))
            ON COLUMNS(c -> c LIKE '%{channel}%' AND regexp_matches(c, '{_LOCATION}')) INTO NAME channel VALUE {value}
        )
        ORDER BY ts, probe
    """


def _ignition(events: Path, start: datetime | None) -> datetime:
    with duckdb.connect() as connection:
        rows = connection.execute(f"FROM read_csv('{events}', all_varchar = true)").fetchall()
    times = [time for time, event, *_ in rows if "ignition" in event.lower()]
    if start is not None:
        return start + timedelta(seconds=float(times[0]))
    return datetime.strptime(times[0], "%Y-%m-%d-%H:%M:%S").replace(tzinfo=UTC)


def write_offices(data: Path, folder: Path) -> None:
    """Write ``offices`` below a folder: readings of 23 office rooms, with the room that only the file's name tells."""
    (folder / "offices").mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(f"""
            COPY (
                SELECT strftime(timestamp, '%Y-%m-%dT%H:%M:%S') AS ts,
                    'Room ' || regexp_extract(filename, 'room_(\\d+)', 1) AS location, temperature, co2
                FROM read_csv('{data}/office-rooms/room_*.csv.gz', filename = true) ORDER BY ts, location
            ) TO '{folder}/offices/rooms.csv'
        """)

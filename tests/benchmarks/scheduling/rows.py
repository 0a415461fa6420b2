"""Real rows as Arrow batches: connections of an office, and readings of burning rooms, one row a channel and second."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

REAL = Path(__file__).parents[4] / "shared" / "data"
SETS = ("zeek-m57-conn", "building-fire")
BATCH_ROWS = 4096
CONN = {"ts": 0, "src": 2, "src_port": 3, "dest": 4, "dest_port": 5, "proto": 6, "service": 7, "duration": 8}
CONN |= {"orig_bytes": 9, "resp_bytes": 10, "state": 11, "history": 14, "orig_pkts": 15, "resp_pkts": 17}
CONN_NUMBERS = (
    "ts",
    "duration",
    "orig_bytes",
    "resp_bytes",
    "orig_pkts",
    "resp_pkts",
    "src_port",
    "dest_port",
)


def absent() -> dict[str, str]:
    """Return the sets that are not beside this checkout, with the reason."""
    return {
        name: f"absent beside this checkout: ../shared/data/{name}"
        for name in SETS
        if not (REAL / name).is_dir()
    }


def connections() -> pa.Table:
    """A day of connections; ``-`` is null."""
    with gzip.open(REAL / "zeek-m57-conn" / "conn.log.gz", "rt") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines if not line.startswith("#")]
    columns: dict[str, Any] = {}
    for name, at in CONN.items():
        values = [None if row[at] == "-" else row[at] for row in rows]
        if name in CONN_NUMBERS:
            columns[name] = pa.array([None if value is None else float(value) for value in values])
        else:
            columns[name] = pa.array(values)
    return pa.table(columns)


def readings(experiments: int) -> pa.Table:
    """Readings of the first furniture fires: experiment, channel, seconds since ignition, value; null where empty."""
    files = sorted((REAL / "building-fire" / "compartment").glob("*_[0-9].csv.gz"))[:experiments]
    rows = [row for file in files for row in _melted(file)]
    names = ("experiment", "channel", "seconds", "value")
    return pa.table(dict(zip(names, map(pa.array, zip(*rows, strict=True)), strict=True)))


def batches(table: pa.Table, times: int = 1) -> list[pa.RecordBatch]:
    """Return a table in batches, as often over as told."""
    once = table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
    return [batch for _ in range(times) for batch in once]


def interleaved(streams: dict[str, list[pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield batches of all streams evenly, as they would arrive together."""
    places: Iterable[tuple[float, str, int]] = (
        ((at + 0.5) / len(each), name, at) for name, each in streams.items() for at in range(len(each))
    )
    for _, name, at in sorted(places):
        yield name, streams[name][at]


def _melted(file: Path) -> Iterator[tuple[str, str, float, float | None]]:
    with gzip.open(file, "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            seconds = float(row["Time"])
            for channel, value in row.items():
                if channel not in ("Time", "Timestamp", "Elapsed Time"):
                    yield file.name.split(".")[0], channel, seconds, float(value) if value else None

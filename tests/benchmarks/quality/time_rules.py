"""Cost of rules over time by the nodes they read: silent keys, falls of counters, rows of periods.

    python -m tests.benchmarks.quality time_rules [--quick] [--json]

A hundred thousand keys in ten million nodes: a hundred files that no fold has brought together; seconds of processors.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.checks.table_rows import TableRows
from lakehouse.checks.time_nodes import Counted, Meeting, Nodes
from lakehouse.engine.local import LocalEngine

KEYS, QUICK_KEYS, FILES = 100_000, 1_000, 100
HOUR_US = 3_600_000_000
COUNTERS = ("n", "first_us", "last_us", "max", "first", "last", "drops_low", "drops_high")


def figures(quick: bool) -> dict[str, Any]:
    """Return the seconds of each kind of rule."""
    keys = QUICK_KEYS if quick else KEYS
    with tempfile.TemporaryDirectory() as folder:
        rollup = _rollup(Path(folder), keys)
        meeting = Meeting(Nodes(1, 0, ("device",), 0, True), rollup, HOUR_US, LocalEngine(), "silent")
        silent_s, silent = _timed(lambda: meeting.silent((FILES - 1) * HOUR_US))
        falls_s, falls = _timed(lambda: meeting.falling("energy", 24 * HOUR_US, 1))
        counted = Counted(1, 0, HOUR_US, 0)
        counted_s, _ = _timed(lambda: [counted.rows(pq.read_table(path)) for path in rollup.paths])
    assert silent[:2] == (keys, keys // 10)
    assert falls[1] > 0
    return {
        **{"keys": keys, "nodes": keys * FILES, "silent_s": silent_s, "counter_resets_s": falls_s},
        **{"volume_s": counted_s},
    }


def _timed(measured: Any) -> tuple[float, Any]:
    began = time.process_time()
    found = measured()
    return round(time.process_time() - began, 2), found


def _rollup(folder: Path, keys: int) -> TableRows:
    """Return nodes of an hour a file: a tenth of the keys is not in the last, each counter falls every tenth hour."""
    files = []
    names = np.array([f"device-{number:06d}" for number in range(keys)])
    for hour in range(FILES):
        own = names[keys // 10 :] if hour == FILES - 1 else names
        start = np.full(len(own), hour * HOUR_US)
        reading = np.full(len(own), float(hour % 10))
        zeros = np.zeros(len(own))
        values = (np.full(len(own), 60), start, start + HOUR_US - 1, reading, reading, reading, zeros, zeros)
        nodes = pa.table(
            {
                **{"level": np.full(len(own), 1, np.int32), "grouping": np.full(len(own), 0, np.int32)},
                **{"start_us": start, "device": own, "rows": values[0], "last_us": values[2]},
                **{f"energy__{part}": each for part, each in zip(COUNTERS, values, strict=True)},
            }
        )
        pq.write_table(nodes, folder / f"{hour}.parquet")
        ends = {"min.start_us": hour * HOUR_US, "max.start_us": hour * HOUR_US}
        files.append(
            {"path": f"{hour}.parquet", "num_records": len(own), "min.level": 1, "max.level": 1} | ends
        )
    return TableRows(folder, nodes.schema, files)

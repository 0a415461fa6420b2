"""Cost of rules about keys: a check of 1,000 new rows, and the full one of each day, by the nodes before them.

A hundred thousand keys, a node of each an hour, in files that no fold has brought together; one counter in a hundred
falls more often than once a day, which breaks the rule; in this process, seconds of processors. *full*: a check that
reads all nodes, as the first of each day does. *new*: the check after a batch with readings of a thousand keys;
*late*: the same where each is from before the last two nodes of its key.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import Schema

from lakehouse.checks.key_nodes import Nodes
from lakehouse.checks.table_rows import TableRows
from lakehouse.checks.time_nodes import Counted, Keeping, Meeting
from lakehouse.engine.local import LocalEngine
from lakehouse.storage.kept_nodes import KeptNodes
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.table_commits import append_arrow, create_table
from lakehouse.storage.tables.table_reads import read_between
from tests.benchmarks.page import table, write

KEYS, QUICK_KEYS, FILES, NEW = 100_000, 1_000, (1, 10, 100), 1_000
HOUR_US = 3_600_000_000
COUNTERS = ("n", "first_us", "last_us", "max", "first", "last", "drops_low", "drops_high")
_WHOLE = ("n", "first_us", "last_us")
NODES = pa.schema(
    [
        *(("level", pa.int32()), ("grouping", pa.int32()), ("start_us", pa.int64()), ("device", pa.string())),
        *(("rows", pa.int64()), ("last_us", pa.int64())),
        *((f"energy__{part}", pa.int64() if part in _WHOLE else pa.float64()) for part in COUNTERS),
    ]
)
HEADS = (
    *("nodes", "silent full, s", "silent new, s", "resets full, s", "resets new, s", "resets late, s"),
    "volume of all files, s",
)


def figures(quick: bool) -> dict[str, Any]:
    """Return the seconds of each kind of rule by nodes; a full run writes a page."""
    rows = [_of_files(QUICK_KEYS if quick else KEYS, files) for files in (FILES[:2] if quick else FILES)]
    if not quick:
        says = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
        write("quality", "time_rules", "Cost of rules about keys", says, table(HEADS, rows))
    return {
        f"{head} at {row[0]}": value for row in rows for head, value in zip(HEADS[1:], row[1:], strict=True)
    }


@dataclass(frozen=True)
class Rollup:
    """A table of nodes of an hour, and what rules keep of it."""

    folder: Path
    keys: int

    @property
    def table(self) -> Path:
        """The table."""
        return self.folder / "rollup"

    def append(self, hour: int, keys: np.ndarray[Any, Any]) -> None:
        """Append nodes of some keys in an hour; a counter falls once a day, one in a hundred every tenth hour."""
        start = np.full(len(keys), hour * HOUR_US)
        reading, zeros = hour % np.where(keys % 100, 24.0, 10.0), np.zeros(len(keys))
        ones = np.ones(len(keys), np.int64)
        values = (60 * ones, start, start + HOUR_US - 1, reading, reading, reading, zeros, zeros)
        names = np.char.add("device-", np.char.zfill(keys.astype(str), 6))
        place = (ones.astype(np.int32), 0 * ones.astype(np.int32), start, names, values[0], values[2])
        nodes = pa.table(dict(zip(NODES.names, [*place, *values], strict=True)), schema=NODES)
        with opened(self.table) as known:
            append_arrow(known, self.table, nodes)

    def judged(self, kind: str, hours: int, is_used: bool = True) -> tuple[int, int]:
        """Return how many keys, or periods of meters, there are, and how many break a rule; keep what it needs."""
        kept = KeptNodes(self.folder / f"{kind}.json", self.folder / kind)
        keeping = Keeping(kept.folder, kept.read() if is_used else {}, {})
        nodes = Nodes(1, 0, ("device",), 0, True)
        meeting = Meeting(nodes, TableRows.of(self.table), HOUR_US, LocalEngine(), kind, kind, keeping)
        found = (
            meeting.silent((hours - 1) * HOUR_US)
            if kind == "silent"
            else meeting.falling("energy", 24 * HOUR_US, 1)
        )
        kept.write(keeping.now)
        return found[:2]


def _of_files(keys: int, files: int) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        rollup = Rollup(Path(folder), keys)
        create_table(rollup.table, Schema.from_arrow(NODES).to_json())
        for hour in range(files):
            # A tenth of the keys is not in the last hour.
            rollup.append(hour, np.arange(keys // 10 if hour and hour == files - 1 else 0, keys))
        full = [_timed(partial(rollup.judged, kind, files, False)) for kind in ("silent", "resets")]
        counted = Counted(1, 0, HOUR_US, 0)
        volume_s = _timed(lambda: counted.rows(read_between(rollup.table)))
        rollup.append(files, np.arange(min(NEW, keys)))
        new = [_timed(partial(rollup.judged, kind, files)) for kind in ("silent", "resets")]
        rollup.append(max(files - 3, 0), np.arange(keys - min(NEW, keys // 2), keys))
        late_s = _timed(lambda: rollup.judged("resets", files))
        assert rollup.judged("silent", files)[1] == (keys // 10 - min(NEW, keys // 10) if files > 1 else 0)
        assert rollup.judged("resets", files) == rollup.judged("resets", files, False)
    return [keys * files, full[0], new[0], full[1], new[1], late_s, volume_s]


def _timed(measured: Callable[[], object]) -> float:
    began = time.process_time()
    measured()
    return round(time.process_time() - began, 3)

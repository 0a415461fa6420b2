"""Number of raw files that a repair reads.

Raw rows in files of 100,000 as they came, 1 % of them up to an hour late; a repair of the late rows of the last 1 % of
the files, with a window of 10 s.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join.ranges import covering_ranges
from lakehouse.queries.runtime.logged import MOST_RANGES as _MOST_RANGES
from lakehouse.queries.runtime.source import MOST_RANGES
from lakehouse.queries.runtime.tasks.reading import FileRows, near
from lakehouse.storage.tables import table_commits
from lakehouse.storage.tables.table_log import files_near
from tests.benchmarks import page

SECOND = 1_000_000
WINDOW, MOST_LATE = 10 * SECOND, 3600 * SECOND
FILES, ROWS, EVERY_US = 1000, 100_000, 1000
SCHEMA = (
    '{"type": "struct", "fields": [{"name": "event_us", "type": "long", "nullable": true, "metadata": {}}, '
    '{"name": "batch", "type": "long", "nullable": true, "metadata": {}}]}'
)


def figures(quick: bool) -> dict[str, Any]:
    """Return the files of raw, and of them those that a repair reads."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        raw = Path(folder) / "raw"
        files = FILES // 20 if quick else FILES
        late = _written(raw, files, last=max(files // 100, 1)).to_numpy()
        ranges = covering_ranges(late - WINDOW, late + WINDOW, _MOST_RANGES)
        ends = np.array(ranges, np.int64).T
        read = files_near(raw, "event_us", covering_ranges(ends[0], ends[1], MOST_RANGES))
        found = near(FileRows(pa.schema([("event_us", pa.int64())])), ranges)
        rows = sum(batch.num_rows for batch in found.batches(str(path) for path, _ in read))
    result = {
        "repair_files": files,
        "repair_files_read": len(read),
        "repair_rows_read_share": round(rows / files / ROWS, 4),
    }
    if not quick:
        page.write(
            "late_join",
            "repair_files",
            "Files a repair reads",
            __doc__ or "",
            page.table(list(result), [list(result.values())]),
        )
    return result


def _written(raw: Path, files: int, last: int) -> pa.Array:
    """Write raw rows as they came; return the times of the late ones in the last files."""
    table_commits.create_table(raw, SCHEMA, properties={"delta.dataSkippingStatsColumns": "event_us,batch"})
    random, logged = np.random.default_rng(7), []
    for number in range(files):
        event = (np.arange(ROWS) + number * ROWS) * EVERY_US
        late = np.flatnonzero(random.random(ROWS) < 0.01)
        event[late] -= random.integers(0, MOST_LATE, len(late))
        rows = pa.table({"event_us": event, "batch": np.full(ROWS, number)})
        table_commits.append_arrow(table_commits.open_table(raw), raw, rows)
        if number >= files - last:
            logged.append(event[late])
    return pa.array(np.concatenate(logged))


if __name__ == "__main__":
    print(figures(quick=True))

"""Size and seconds of files of raw rows and of nodes: as Tidemark writes Parquet, and by Arrow's defaults.

    python -m tests.benchmarks.commits encodings

Readings of a thousand devices, one each second at a time of its own, and their nodes by second, device and altogether;
one core. Megabytes on disk, and milliseconds of processors that writing and reading take: the least of three.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.rollup.nodes import folder_of
from lakehouse.settings import load_settings
from lakehouse.storage.tables.table_commits import write_share
from tests.benchmarks.small_batch import CONFIG, DEVICES, T0, readings_of

ROWS, QUICK_ROWS = 500_000, 20_000
US = 1_000_000


def figures(quick: bool) -> dict[str, float]:
    """Return megabytes and milliseconds of both ways, and ratios to the defaults."""
    rows, cores, found = QUICK_ROWS if quick else ROWS, pa.cpu_count(), dict[str, float]()
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        for name, each in _tables(Path(folder), rows).items():
            path = Path(folder) / "file"
            ways: dict[str, Callable[[pa.Table, Path], object]] = {"ours": _ours, "default": pq.write_table}
            for way, write in ways.items():
                found[f"{name}_{way}_write_ms"] = _ms(lambda: write(each, path))  # noqa: B023
                found[f"{name}_{way}_read_ms"] = _ms(lambda: pq.read_table(path))  # noqa: B023
                found[f"{name}_{way}_mb"] = round(path.stat().st_size / 1e6, 2)
            for figure in ("write_ms", "read_ms", "mb"):
                ratio = found[f"{name}_ours_{figure}"] / found[f"{name}_default_{figure}"]
                found[f"{name}_{figure.partition('_')[0]}_ratio"] = round(ratio, 2)
    pa.set_cpu_count(cores)
    return found


def _tables(folder: Path, rows: int) -> dict[str, pa.Table]:
    (folder / "tidemark.toml").write_text(CONFIG.replace('"1m for 2d"', '"1s for 2d"'))
    number = np.arange(rows)
    raw = readings_of(T0 + number // DEVICES, number % DEVICES)
    beside = {"event_us": T0 * US + number * (US // DEVICES), "source_line": number + 2}
    for name, values in beside.items():
        raw = raw.append_column(name, pa.array(values))
    stream = load_settings(folder / "tidemark.toml").stream("readings")
    return {"raw": raw, "nodes": pa.concat_tables(folder_of(stream, T0 * US).folded([raw]))}


def _ours(rows: pa.Table, path: Path) -> None:
    write_share([rows], path, rows.schema)


def _ms(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(3):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return round(min(taken) * 1000, 1)

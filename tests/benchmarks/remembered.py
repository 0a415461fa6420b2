"""A batch of rows with an identity after up to ten million whose raw rows are gone; no JVM.

    python -m tests.benchmarks.remembered [--quick] [--json]

A hundred devices report for thirty days; raw keeps one day of it, identities are known for ninety. Batches have 10,000
rows: ``new_s`` if all are new; ``scattered_s`` if one in a hundred repeats a row from anywhere in history;
``sent_again_s`` if all repeat a stretch of the first days, as a logger does that sends its memory again. Each is the
median of whole ingests. ``search_ms`` is the part of a batch of new rows that grows with history: its hashes looked up
in the index. ``drop_s`` is the maintenance that remembers and drops the history's raw rows. ``remembered_bytes`` and
``index_bytes`` are those of one identity on disk. ``--quick``: after fifty thousand alone.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jobs import build_rollups, ingest, maintain
from lakehouse.ingest.identities.stored_identities import index_before
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import build_session
from lakehouse.storage.identity_index import find_in
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.tables.table_log import read_log
from tests.benchmarks.parts import run_parts

DECLARED = """
home = "var"
[streams.readings]
event_time = { column = "ts", unit = "us" }
identity = ["device", "ts"]
keys = ["device"]
measures = ["temp"]
groupings = [[]]
levels = ["1h for 7d", "1d forever"]
keep_raw = "1d"
source = { path = "landing/*.parquet", format = "parquet", settle = 0 }
columns = { ts = "int", temp = "double" }
"""
SIZES, QUICK_SIZES = (100_000, 1_000_000, 10_000_000), (50_000,)
FILE_ROWS, BATCH_ROWS, ROUNDS = 1_000_000, 10_000, 3
T0, SPAN_US = 1_600_000_000_000_000, 30 * 86_400 * 1_000_000
Numbers = npt.NDArray[np.int64]


def figures(quick: bool) -> dict[str, Any]:
    """Return by rows of history what batches took, and the bytes of an identity."""
    found = {}
    for size in QUICK_SIZES if quick else SIZES:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
            found[str(size)] = _measured(Path(name), size, 1 if quick else ROUNDS)
    return {"remembered": found}


def _measured(folder: Path, size: int, rounds: int) -> dict[str, float]:
    (folder / "tidemark.toml").write_text(DECLARED)
    (folder / "landing").mkdir()
    settings = load_settings(folder / "tidemark.toml")
    spark, layout = build_session(settings), settings.layout
    for start in range(0, size, FILE_ROWS):
        _land(folder, size, np.arange(start, min(size, start + FILE_ROWS)))
    ingest.run(settings, spark, "readings")
    build_rollups.run(settings, spark, "readings")
    generator, at = np.random.default_rng(1), size

    def batch(again: Numbers) -> float:
        nonlocal at
        new = np.arange(at, at + BATCH_ROWS - len(again))
        at += len(new)
        _land(folder, size, np.concatenate([new, again]))
        return _seconds(lambda: ingest.run(settings, spark, "readings"))

    few, whole = BATCH_ROWS // 100, size // 10
    kinds: dict[str, Callable[[], Numbers]] = {
        "new_s": lambda: np.empty(0, np.int64),
        "scattered_s": lambda: generator.choice(size, few, replace=False),
        "sent_again_s": lambda: np.arange(whole, whole + BATCH_ROWS),
    }
    # Retention follows the time that the batches before the last one have confirmed.
    batch(kinds["scattered_s"]())
    build_rollups.run(settings, spark, "readings")
    found = {"drop_s": _seconds(lambda: maintain.run(settings, spark, "readings"))}
    for name, again in kinds.items():
        found[name] = statistics.median(batch(again()) for _ in range(rounds))
    found |= {"search_ms": _search_ms(settings), **_bytes(settings)}
    assert read_log(layout.unchecked("readings")) is None
    return {name: round(value, 3) for name, value in found.items()}


def _bytes(settings: Settings) -> dict[str, float]:
    layout = settings.layout
    beyond, raw = read_log(layout.remembered("readings")), read_log(layout.raw("readings"))
    assert beyond and beyond.rows and raw and raw.rows
    index = sum(path.stat().st_size for path in layout.identities("readings").iterdir())
    return {"remembered_bytes": beyond.bytes / beyond.rows, "index_bytes": index / (beyond.rows + raw.rows)}


def _search_ms(settings: Settings) -> float:
    stream = settings.stream("readings")
    index = index_before(settings.layout, stream, read_extent(settings.layout, stream.name).batch + 1)
    wanted = np.sort(np.random.default_rng(2).integers(0, 2**63, BATCH_ROWS).astype(np.uint64))
    runs = (_seconds(lambda: find_in(index.runs(), wanted, -(2**62), 2**62)) for _ in range(5))
    return 1000 * statistics.median(runs)


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _land(folder: Path, size: int, numbers: Numbers) -> None:
    """Write rows by their number: those of history are spread over its time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "ts": T0 + numbers * (SPAN_US // size),
        "device": np.char.add("device-", (numbers % 100).astype(str)),
        "temp": np.round(20 + np.sin(numbers), 3),
    }
    landing = folder / "landing"
    pq.write_table(pa.table(columns), landing / f"{len(list(landing.iterdir())):05}.parquet")


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("remembered",))

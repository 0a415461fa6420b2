"""COUNT and SUM over an hour at 20,000 rows a second, through ingest and the query's job.

The streams and the query ``count`` of ``query_batch``, at 10,000 rows a second and stream. An hour of them, 72 million
rows, comes in files of a million rows; then, as they would come live, five seconds at a time: 100,000 rows, ingested,
rolled up and taken in by the query. It keeps up where that takes less than five seconds. ``state_mb``: what the query's
tables take on disk in the end, its older states among it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from jobs import build_rollups
from tests.benchmarks.query_batch import FILE_ROWS, QUERIES, Home

PER_S, LIVE_S = 10_000, 5
HOUR_S, QUICK_S = 3600, 10
WARM_UP, BATCHES = 2, 5


def figures(quick: bool) -> dict[str, Any]:
    """Return the seconds that five seconds of rows take, step by step."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        home = Home(Path(name) / "hour", {"count": QUERIES["count"]}, quick, PER_S)
        rows = 2 * PER_S * (QUICK_S if quick else HOUR_S)
        while home.rows < rows:
            home.land(min(rows - home.rows, FILE_ROWS))
            home.run()
        taken = [_live(home) for _ in range(WARM_UP + BATCHES)][WARM_UP:]
        home.spark.stop()
        middle = {f"{step}_s": round(statistics.median(each[step] for each in taken), 2) for step in taken[0]}
        return {
            "rows_held": min(rows, 2 * PER_S * HOUR_S),
            **middle,
            "worst_s": round(max(sum(each.values()) for each in taken), 2),
            "of_live": round(sum(middle.values()) / LIVE_S, 2),
            "state_mb": round(home.size("count") / 1e6),
        }


def _live(home: Home) -> dict[str, float]:
    """Take five seconds of rows through; return the seconds of each step."""
    started = time.perf_counter()
    written = home.land(2 * PER_S * LIVE_S)
    ingested = time.perf_counter()
    for stream in ("asks", "replies"):
        build_rollups.run(home.settings, home.spark, stream)
    rolled_up = time.perf_counter()
    home.run()
    ended = time.perf_counter()
    return {
        "ingest": ingested - started - written,
        "rollup": rolled_up - ingested,
        "query": ended - rolled_up,
    }

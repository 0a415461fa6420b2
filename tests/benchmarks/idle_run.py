"""Cost of a home's first run, of one that finds nothing new, and of one that finds a file of a thousand clean rows.

    python -m tests.benchmarks.start idle_run [--json]

A home as ``tidemark init`` makes it, with two streams and two queries that have run once. Then ``tidemark run``, a
process with Airflow each time: seconds of the clock and of processors, medians of three. ``first``: in a home of its
own, over two streams of 50,000 rows, late and dirty, as in ``make demo``. ``small``: a file has landed;
``first_idle``: nothing has since; ``idle``: nor before, so that the checks have passed already.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS, ROWS = 3, 1000
T0_MS = 1_760_000_000_000


def figures(quick: bool) -> dict[str, float]:
    """Return seconds of idle runs, and of runs with a small clean file."""
    taken: dict[str, list[float]] = {}

    def timed(kind: str, folder: Path) -> None:
        for name, seconds in zip(("s", "processor_s"), _tidemark(folder, "run"), strict=True):
            taken.setdefault(f"{kind}_{name}", []).append(seconds)

    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = Path(name)
        _begin(folder, "--rows", str(ROWS))
        _tidemark(folder, "run")
        for number in range(1 if quick else RUNS):
            with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as own:
                _begin(Path(own))
                timed("first", Path(own))
            for kind in ("small", "first_idle", "idle"):
                if kind == "small":
                    _land(folder, number)
                timed(kind, folder)
    return {name: round(statistics.median(seconds), 1) for name, seconds in taken.items()}


def _begin(folder: Path, *words: str) -> None:
    """Make a configuration with its queries, and land what was simulated."""
    _tidemark(folder, "init")
    _tidemark(folder, "simulate", *words)


def _land(folder: Path, number: int) -> None:
    """Put a clean file of the stream of devices where files land, old enough to be whole."""
    path = folder / "landing" / "telemetry" / f"more-{number}.ndjson"
    ts = T0_MS + number * 10**6
    path.write_text(
        "".join(
            f'{{"ts": {ts + row * 1000}, "received": {ts + row * 1000 + 20}, "device": "d{row % 10}", '
            f'"location": "attic", "temp": 20.5, "humidity": 0.5, "battery": 3.125}}\n'
            for row in range(ROWS)
        ),
        encoding="utf-8",
    )
    os.utime(path, (time.time() - 3600,) * 2)


def _tidemark(folder: Path, *words: str) -> tuple[float, float]:
    """Run a command; return its seconds of the clock and of processors."""
    started, before = time.perf_counter(), os.times()
    subprocess.run(
        [sys.executable, "-m", "lakehouse.cli", *words], check=True, cwd=folder, capture_output=True
    )
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, processor

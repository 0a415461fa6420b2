"""Cost of ``make demo`` once everything is set up: seconds, processor seconds, and the memory of all its processes.

    python -m tests.benchmarks.start demo

The tour of ``infra/demo.sh`` into a home of its own. Memory is what its processes have together, looked at some times
a second; pages that they share count once. ``java_mb``: of the JVM alone.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

TOUR = Path(__file__).parents[2] / "infra" / "demo.sh"
EVERY_S = 0.3


def figures(quick: bool) -> dict[str, float]:
    """Return seconds, processor seconds and megabytes at most."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as home:
        before, started = os.times(), time.perf_counter()
        environment = os.environ | {"TIDEMARK_HOME": home}
        tour = subprocess.Popen([TOUR], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        most, java = 0.0, 0.0
        while tour.poll() is None:
            sizes = _sizes(tour.pid)
            most, java = (
                max(most, sum(size for _, size in sizes)),
                max(java, *(s for n, s in sizes if n == "java"), 0.0),
            )
            time.sleep(EVERY_S)
        assert tour.returncode == 0, f"the tour ended with {tour.returncode}"
        after, taken = os.times(), time.perf_counter() - started
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "demo_s": round(taken, 1),
        "processor_s": round(used, 1),
        "memory_mb": round(most),
        "java_mb": round(java),
    }


def _sizes(process: int) -> list[tuple[str, float]]:
    """Return the name and megabytes of a process and all below it."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for each in psutil.Process(process).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                found.append((each.name(), each.memory_full_info().pss / 2**20))
    return found

"""A service at twice the rate it is meant for, killed every now and then: nothing is lost or twice, nothing grows."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.end_to_end.serving import Lake, served, until
from tests.faults.report import Progress

# ``SOAK_MINUTES`` is for longer ones.
MINUTES, QUICK_MINUTES = float(os.environ.get("SOAK_MINUTES", "20")), 1.5
# A file each second, with so many rows, five of which come twice, and a line that cannot be read.
ROWS, EVERY_S = 2_000, 1.0
KILLED_AFTER_S, QUICK_KILLED_AFTER_S = (60.0, 180.0), (15.0, 40.0)
SEED = 25
# Old versions of tables go as soon as they may, so that logs that grow without end would show.
HISTORY = '[tables]\nhistory = "10m"\n'
# What may grow with the rows is their bytes; files are merged and logs cleaned.
MOST_FILES, MOST_COMMITS, MOST_RSS_MB = 4_000, 400, 4_000
# How much more there may be of each after the second half than there was at most in the first.
MOST_GROWTH = 1.5
# Of a life of the service: memory in MB, files of the home without what has landed, commits in the longest log, KB of
# the service's log at its end; seconds from its start until an answer held rows that the life before had not answered.
Size = tuple[int, int, int, int, int]
SIZES = (
    *("MB of memory", "files", "commits in a table's log", "KB of the service's log"),
    "s from its start to the first new answer",
)


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Let rows land for some minutes while the service, or its Spark, is killed; wait until all are published."""
    minutes = QUICK_MINUTES if quick else MINUTES
    pauses = _pauses(minutes * 60, QUICK_KILLED_AFTER_S if quick else KILLED_AFTER_S)
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name:
        lake = Lake(Path(name), HISTORY, ROWS)
        began = time.monotonic()
        sizes = [
            _until_killed(lake, pause, place)
            for place, pause in enumerate(progress(iter(pauses), len(pauses)))
        ]
        took = time.monotonic() - began
        with served(lake) as process:
            until(lambda: lake.published() == lake.landed, lake, 600)
            found, expected = lake.counts(), lake.expected()
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    broken = [
        f"{what} is {found[what]}, not {told}" for what, told in expected.items() if found[what] != told
    ]
    broken += _grown(sizes)
    flat = ", ".join(
        f"{min(each)} to {max(each)} {what}"
        for what, each in zip(SIZES, zip(*sizes, strict=True), strict=True)
    )
    figures = {"minutes": round(took / 60, 1), "kills": len(pauses), "rows": lake.landed}
    return {**figures, "rows_a_second": round(lake.landed / took), "flat": flat, "broken": broken}


def _grown(sizes: Sequence[Size]) -> list[str]:
    """Return what has grown beyond its bound, or is more in the second half than in the first."""
    most = (MOST_RSS_MB, MOST_FILES, MOST_COMMITS)
    columns = list(zip(*sizes, strict=True))
    found = [
        f"{max(each)} {what}"
        for each, what, bound in zip(columns, SIZES, most, strict=False)
        if max(each) > bound
    ]
    half = len(sizes) // 2
    for each, what in zip(columns[:3], SIZES, strict=False):
        before, after = max(each[:half], default=0), max(each[half:])
        # Between two clean-ups of a log there are up to so many commits more, whatever was before.
        if half >= 3 and after > before * MOST_GROWTH + 60:
            found.append(f"{before} {what} in the first half, {after} in the second")
    return found


def _pauses(seconds: float, least_and_most: tuple[float, float]) -> list[float]:
    """Return how long the service lives each time."""
    dice, found = random.Random(SEED), list[float]()
    while sum(found) < seconds:
        found.append(dice.uniform(*least_and_most))
    return found


def _until_killed(lake: Lake, seconds: float, place: int) -> Size:
    """Serve while files land, then kill the service, or every third time its Spark first; return the sizes by then."""
    answered, first = lake.published(), 0.0
    began = time.monotonic()
    with served(lake) as process:
        while time.monotonic() < began + seconds:
            lake.land()
            time.sleep(EVERY_S)
            if not first and lake.published() > answered:
                first = time.monotonic() - began
        # One that answered nothing new in its whole life took longer than that.
        size = (*_size(lake, process.pid), round(first or seconds))
        if place % 3 == 2:
            for child in list(_family(process.pid))[1:]:
                os.kill(child, signal.SIGKILL)
            time.sleep(5)
        process.kill()
        process.wait()
    return size


def _size(lake: Lake, pid: int) -> tuple[int, int, int, int]:
    memory = sum(_resident_kb(each) for each in _family(pid)) // 1024
    files = sum(len(names) for _, _, names in os.walk(lake.home.root))
    commits = max((len(list(log.glob("*.json"))) for log in lake.home.root.rglob("_delta_log")), default=0)
    return memory, files, commits, (lake.folder / "serve.log").stat().st_size // 1024


def _family(pid: int) -> Iterator[int]:
    """Yield a process and those that it started."""
    yield pid
    told = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    for child in told.stdout.split():
        yield from _family(int(child))


def _resident_kb(pid: int) -> int:
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return int(told.stdout or 0)

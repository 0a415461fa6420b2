"""A service at twice the rate it is meant for, killed every now and then: nothing is lost or twice, nothing grows."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.end_to_end.serving import Lake, served, until
from tests.faults.report import Progress

MINUTES, QUICK_MINUTES = 20.0, 1.5
# A file each second, with so many rows, five of which come twice, and a line that cannot be read.
ROWS, EVERY_S = 2_000, 1.0
KILLED_AFTER_S, QUICK_KILLED_AFTER_S = (60.0, 180.0), (15.0, 40.0)
SEED = 25
# What may grow with the rows is their bytes; files are merged and logs cleaned.
MOST_FILES, MOST_RSS_MB = 4_000, 4_000


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Let rows land for some minutes while the service, or its Spark, is killed; wait until all are published."""
    minutes = QUICK_MINUTES if quick else MINUTES
    pauses = _pauses(minutes * 60, QUICK_KILLED_AFTER_S if quick else KILLED_AFTER_S)
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name:
        lake = Lake(Path(name), rows=ROWS)
        memory = [
            _until_killed(lake, pause, place)
            for place, pause in enumerate(progress(iter(pauses), len(pauses)))
        ]
        with served(lake) as process:
            until(lambda: lake.published() == lake.landed, lake, 600)
            found, expected = lake.counts(), lake.expected()
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        files = sum(len(names) for _, _, names in os.walk(lake.home.root))
    broken = [
        f"{what} is {found[what]}, not {told}" for what, told in expected.items() if found[what] != told
    ]
    broken += [f"{files} files"] if files > MOST_FILES else []
    broken += [f"{max(memory)} MB of memory"] if max(memory) > MOST_RSS_MB else []
    flat = f"memory {min(memory)} to {max(memory)} MB, {files} files at the end"
    return {"minutes": minutes, "kills": len(pauses), "rows": lake.landed, "flat": flat, "broken": broken}


def _pauses(seconds: float, least_and_most: tuple[float, float]) -> list[float]:
    """Return how long the service lives each time."""
    dice, found = random.Random(SEED), list[float]()
    while sum(found) < seconds:
        found.append(dice.uniform(*least_and_most))
    return found


def _until_killed(lake: Lake, seconds: float, place: int) -> int:
    """Serve while files land, then kill the service, or every third time its Spark first; return its memory in MB."""
    with served(lake) as process:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            lake.land()
            time.sleep(EVERY_S)
        memory = sum(_resident_kb(each) for each in _family(process.pid)) // 1024
        if place % 3 == 2:
            for child in list(_family(process.pid))[1:]:
                os.kill(child, signal.SIGKILL)
            time.sleep(5)
        process.kill()
        process.wait()
    return memory


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

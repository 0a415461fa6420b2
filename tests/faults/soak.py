"""A service at twice the rate it is meant for, killed every now and then: nothing is lost or twice, nothing grows."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from jobs.service_tasks import MAINTAINED_AFTER
from lakehouse.storage.control.outcomes import last_outcome
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import commits_of, newest_version
from lakehouse.storage.tables.table_maintenance import CHECKPOINTED_AFTER, SMALL_FILES
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
HISTORY_S = 600
# A round of maintenance that a kill cuts off is done after the next start: between two that ended, fewer batches come
# than between two that are due.
MOST_BATCHES = 2 * MAINTAINED_AFTER
# How much grows old until the next round goes by how fast batches came ten minutes ago, so it is counted what was older
# than the history when the last one began. A log is cut at a checkpoint; a kill may have come before one was written.
MOST_OLD_COMMITS = 2 * CHECKPOINTED_AFTER + 1
# A batch writes a file to each of these tables, and a manifest. Until the history has passed they stay, though merged;
# a table has few other files, and the home has few outside its tables.
TABLES = ("raw", "quarantine", "ledger", "rollup")
MOST_OLD_FILES = (
    (len(TABLES) + 1) * MOST_BATCHES
    + len(TABLES) * (SMALL_FILES + MOST_OLD_COMMITS + MOST_OLD_COMMITS // 10)
    + 20
)
MOST_RSS_MB, MOST_DRAFTS = 4_000, 10
# How much more memory there may be in the second half than there was at most in the first.
MOST_GROWTH = 1.5


class Size(NamedTuple):
    """Of a life of the service at its end; files are those of the home, without what has landed."""

    memory: int
    batches: int
    old_files: int
    old_commits: int
    drafts: int
    files: int
    commits: int
    log_kb: int
    log_bytes_a_batch: int
    first_answer_s: int


# The first ones have a bound; of the others it is told how many they were.
BOUNDS = (MOST_RSS_MB, MOST_BATCHES, MOST_OLD_FILES, MOST_OLD_COMMITS, MOST_DRAFTS)
SIZES = (
    "MB of memory",
    "batches since the last round of maintenance",
    "files older than the history of ten minutes at that round",
    "such commits in a table's log",
    "drafts of writers that died",
    "files",
    "commits in a table's log",
    "KB of the service's log",
    "bytes of it a batch",
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
    half = len(sizes) // 2
    flat = ", ".join(
        f"{max(each[:half], default=0)} and {max(each[half:])} {what}"
        for what, each in zip(SIZES, zip(*sizes, strict=True), strict=True)
    )
    figures: dict[str, Any] = {"minutes": round(took / 60, 1), "kills": len(pauses), "rows": lake.landed}
    figures |= {"flat": f"at most in the first and in the second half {flat}"}
    return {**figures, "rows_a_second": round(lake.landed / took), "broken": broken}


def _grown(sizes: Sequence[Size]) -> list[str]:
    """Return what is beyond its bound, and memory that has grown from one half to the other."""
    most = zip(map(max, zip(*sizes, strict=True)), SIZES, BOUNDS, strict=False)
    found = [f"{size} {what}" for size, what, bound in most if size > bound]
    half, memory = len(sizes) // 2, [each.memory for each in sizes]
    if half >= 3 and max(memory[half:]) > max(memory[:half]) * MOST_GROWTH:
        found.append(f"{max(memory[:half])} {SIZES[0]} in the first half, {max(memory[half:])} in the second")
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
        size = _size(lake, process.pid, round(first or seconds))
        if place % 3 == 2:
            for child in list(_family(process.pid))[1:]:
                os.kill(child, signal.SIGKILL)
            time.sleep(5)
        process.kill()
        process.wait()
    return size


def _size(lake: Lake, pid: int, first_answer_s: int) -> Size:
    ledger, began = lake.home.ledger("readings"), _maintained_s(lake)
    then, batches = began - HISTORY_S, newest_version(ledger)
    # Folders go meanwhile, which a walk leaves out.
    folders = [(Path(folder), names) for folder, _, names in os.walk(lake.home.root)]
    logs = [commits_of(folder.parent) for folder, _ in folders if folder.name == "_delta_log"]
    written = [folder / name for folder, names in folders for name in names]
    log_bytes = (lake.folder / "serve.log").stat().st_size
    return Size(
        memory=sum(_resident_kb(each) for each in _family(pid)) // 1024,
        batches=len(commits_of(ledger)) - _older(commits_of(ledger), began),
        old_files=_older(written, then),
        old_commits=max((_older(commits, then) for commits in logs), default=0),
        drafts=sum(_is_draft(path.name) for path in written),
        files=len(written),
        commits=max(map(len, logs), default=0),
        log_kb=log_bytes // 1024,
        log_bytes_a_batch=log_bytes // (batches or 1),
        first_answer_s=first_answer_s,
    )


def _maintained_s(lake: Lake) -> float:
    """Return when the last round of maintenance that ended well began, in seconds of the epoch, 0 for none."""
    last = last_outcome(lake.home, "maintain", "readings")
    return datetime.fromisoformat(last["started"]).timestamp() if last and last["ok"] else 0.0


def _is_draft(name: str) -> bool:
    return "#" in name or (name.startswith(".") and not name.endswith(".lease"))


def _older(paths: Iterable[Location], then: float) -> int:
    """Return how many files are older than a time; those that go meanwhile are none."""
    found = 0
    for path in paths:
        with suppress(FileNotFoundError):
            found += path.stat().st_mtime < then
    return found


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

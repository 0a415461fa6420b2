"""Answers asked without pause beside publishes: each is of one version, whole, and stays so while it is read."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults import subject
from tests.faults.forked import attempt
from tests.faults.lab import done
from tests.faults.report import Progress

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from multiprocessing.sharedctypes import Synchronized
    from multiprocessing.synchronize import Event

READS, PUBLISHES = 10_000, 100
QUICK_READS, QUICK_PUBLISHES = 100, 4
PROCESSES = 2
DAY = "'2020-09-13', '2020-09-14'"
# Rows of a stream as its nodes have them by two groupings, and as its ledger has them.
WHOLE = f"""
SELECT (SELECT value FROM range_count('doors', '*', {DAY})),
    (SELECT sum(value) FROM range_count('doors', '*', {DAY}, "by" := ['room'])),
    (SELECT sum(accepted) FROM ledger WHERE stream = 'doors')
"""
# How many reads, of which versions, and what was wrong.
Found = tuple[int, set[int], list[str]]


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Publish batch after batch while processes read."""
    reads, publishes = (QUICK_READS, QUICK_PUBLISHES) if quick else (READS, PUBLISHES)
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name:
        lake = Path(name) / "lake"
        done(attempt(lambda: subject.made(lake)))
        context = multiprocessing.get_context("spawn")
        stop, counted, found = context.Event(), context.Value("q", 0), context.Queue()
        readers = [context.Process(target=_read, args=(lake, stop, counted, found)) for _ in range(PROCESSES)]
        for reader in readers:
            reader.start()
        for number in progress(iter(range(publishes)), publishes):
            subject.land(lake, 3 + number)
            done(attempt(lambda: subject.run_jobs(lake / "tidemark.toml")))
        while counted.value < reads and any(reader.is_alive() for reader in readers):
            time.sleep(0.1)
        stop.set()
        return _together([found.get(timeout=60) for _ in readers], readers, publishes)


def _together(found: list[Found], readers: list[SpawnProcess], publishes: int) -> dict[str, Any]:
    for reader in readers:
        reader.join()
    versions = {version for _, some, _ in found for version in some}
    broken = [each for _, _, wrong in found for each in wrong]
    if len(versions) < publishes / 2:
        broken.append(f"only {len(versions)} of {publishes} versions were read")
    return {"reads": sum(each[0] for each in found), "publishes": publishes, "broken": broken}


def _read(lake: Path, stop: Event, counted: Synchronized[int], found: Queue[Found]) -> None:
    """Ask until told to stop; every fourth answer is asked a second time of a version that is kept open meanwhile."""
    from lakehouse.declare.settings import load_settings
    from lakehouse.serving.sandbox.sandbox import open_published

    layout = load_settings(lake / "tidemark.toml").layout
    reads, versions, broken = 0, set[int](), list[str]()
    while not stop.is_set():
        try:
            with open_published(layout) as published:
                rows = _asked(published)
                versions.add(published.version)
                if len({*rows}) != 1:
                    broken.append(f"version {published.version}: {rows}")
                if reads % 4 == 0:
                    time.sleep(0.2)
                    if (later := _asked(published)) != rows:
                        broken.append(f"version {published.version} changed: {rows}, then {later}")
        except Exception as error:
            broken.append(f"{type(error).__name__}: {error}")
        reads += 1
        with counted.get_lock():
            counted.value += 1
    found.put((reads, versions, broken))


def _asked(published: Any) -> tuple[float, ...]:
    [row] = published.connection.execute(WHOLE).fetchall()
    return tuple(float(value) for value in row)

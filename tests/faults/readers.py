"""Answers asked without pause beside publishes: each is of one version, whole, and stays so while it is read.

Each process that asks also keeps a version open until it is one that is removed, and asks it all that time.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults import subject
from tests.faults.forked import attempt
from tests.faults.lab import done, import_jobs
from tests.faults.report import Progress

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from multiprocessing.sharedctypes import Synchronized
    from multiprocessing.synchronize import Barrier, Event

READS, PUBLISHES = 10_000, 100
QUICK_READS, QUICK_PUBLISHES = 100, 4
PROCESSES, START_S = 2, 300
DAY = "'2020-09-13', '2020-09-14'"
# Rows of a stream as its nodes have them by two groupings, and as its ledger has them.
WHOLE = f"""
SELECT (SELECT value FROM range_count('doors', '*', {DAY})),
    (SELECT sum(value) FROM range_count('doors', '*', {DAY}, "by" := ['room'])),
    (SELECT sum(accepted) FROM ledger WHERE stream = 'doors')
"""
# How many reads, of which versions, how many of these were old enough to be removed, and what was wrong.
Found = tuple[int, set[int], int, list[str]]


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Publish batch after batch while processes read."""
    reads, publishes = (QUICK_READS, QUICK_PUBLISHES) if quick else (READS, PUBLISHES)
    context = multiprocessing.get_context("spawn")
    # Jobs are forked from a process that has opened nothing: this one may have threads, which a fork would lack.
    fresh = ProcessPoolExecutor(1, context, import_jobs)
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name, fresh:
        lake = Path(name) / "lake"
        fresh.submit(_done, partial(subject.made, lake)).result()
        stop, counted, found = context.Event(), context.Value("q", 0), context.Queue()
        # On a busy machine a process takes longer to start than some publishes take.
        begun = context.Barrier(PROCESSES + 1, timeout=START_S)
        readers = [
            context.Process(target=_read, args=(lake, begun, stop, counted, found), daemon=True)
            for _ in range(PROCESSES)
        ]
        for reader in readers:
            reader.start()
        begun.wait()
        for number in progress(iter(range(publishes)), publishes):
            subject.land(lake, 3 + number)
            fresh.submit(_done, partial(subject.run_published, lake / "tidemark.toml")).result()
        while counted.value < reads and any(reader.is_alive() for reader in readers):
            time.sleep(0.1)
        stop.set()
        return _together([found.get(timeout=START_S) for _ in readers], readers, publishes)


def _done(work: Callable[[], object]) -> None:
    done(attempt(work))


def _together(found: list[Found], readers: list[SpawnProcess], publishes: int) -> dict[str, Any]:
    for reader in readers:
        reader.join()
    versions = {version for _, some, _, _ in found for version in some}
    outlived = sum(each[2] for each in found)
    broken = [each for *_, wrong in found for each in wrong]
    if len(versions) < publishes / 2:
        broken.append(f"only {len(versions)} of {publishes} versions were read")
    if not outlived:
        broken.append("no version was read until it was old enough to be removed")
    reads = sum(each[0] for each in found)
    figures = {"reads": reads, "publishes": publishes, "versions": len(versions), "outlived": outlived}
    return {**figures, "broken": broken}


def _read(lake: Path, begun: Barrier, stop: Event, counted: Synchronized[int], found: Queue[Found]) -> None:
    """Ask the current version until told to stop, and one that is kept open until it should be gone."""
    from lakehouse.serving.sandbox.sandbox import open_published
    from lakehouse.settings import load_settings

    settings = load_settings(lake / "tidemark.toml")
    layout, kept = settings.layout, settings.serving.keep_versions
    reads, versions, outlived, broken = 0, set[int](), 0, list[str]()
    held = open_published(layout)
    told = _asked(held)
    begun.wait()
    while not stop.is_set():
        try:
            with open_published(layout) as published:
                rows, current = _asked(published), published.version
            if len({*rows}) != 1:
                broken.append(f"version {current}: {rows}")
            if reads % 2 and (later := _asked(held)) != told:
                broken.append(f"version {held.version} changed: {told}, then {later}")
            if current > held.version + kept:
                outlived += 1
                later = _asked(held)
                broken += [f"old version {held.version}: {told}, then {later}"] if later != told else []
                held.close()
                held = open_published(layout)
                told = _asked(held)
            versions.add(current)
        except Exception as error:
            broken.append(f"{type(error).__name__}: {error}")
        reads += 1
        with counted.get_lock():
            counted.value += 1
    held.close()
    found.put((reads, versions, outlived, broken))


def _asked(published: Any) -> tuple[float, ...]:
    [row] = published.connection.execute(WHOLE).fetchall()
    return tuple(float(value) for value in row)

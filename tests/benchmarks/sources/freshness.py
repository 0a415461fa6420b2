"""Freshness of answers while rows keep coming, and growth of memory and files, under `tidemark serve` as it is.

A process of its own serves a new home; rows land in one file a second, each row's event time the moment it was made.
The published versions are watched from outside: a row is fresh after so many seconds as lie between the moment it was
made and the first version that holds it. Memory is that of the service, its JVM and its Python workers together.

Old versions of tables are kept for ten minutes instead of a week, so that it is seen whether files stay flat.
In full an hour of stream time is replayed at each rate, so many times faster as ``FASTER`` says: that many more rows
come a second, and their event times run ahead of the clock and end with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from lakehouse.serving.ask.ask import ask
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.serving.versions.versions import NotPublished
from lakehouse.storage.heartbeats import service_heartbeat
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import read_log

CONFIG = """
home = "var"
[tables]
history = "10m"
[streams.readings]
event_time = { column = "ts", unit = "us" }
keys = ["device"]
measures = ["temp", "humidity"]
groupings = [["device"], []]
levels = ["1s for 1h", "1m for 2d", "1h for 1y", "1d forever"]
[streams.readings.source]
path = "landing/*.csv"
format = "csv"
settle = 0
[streams.readings.columns]
ts = "int"
"""
RATES = (1_000, 20_000)
DEVICES, WARM_S, BETWEEN_FILES_S = 48, 30, 1.0
QUICK_S, STREAM_S = 60, 3600
FASTER = {1_000: 4, 20_000: 2}
PARTS = 6
ROOT = Path(__file__).parents[3]


def figures(quick: bool) -> dict[str, Any]:
    """Return freshness, growth of memory, files and rows for each rate; the short names are of the highest one."""
    found: dict[str, Any] = {}
    for rate in RATES:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
            faster = 1 if quick else FASTER[rate]
            of_rate = served(
                Path(name), CONFIG, Replay(rate, faster, QUICK_S if quick else STREAM_S // faster)
            )
        found |= {f"{key}_at_{rate}": value for key, value in of_rate.items()}
    short = ("freshness_p50_s", "freshness_p95_s", "rss_growth_mb_per_hour")
    return found | {key: found[f"{key}_at_{RATES[-1]}"] for key in short}


@dataclass
class Replay:
    """Rows of a rate of stream time, so many times faster, for so many seconds after those of warming up."""

    rate: int
    faster: int
    seconds: int
    started: float = field(default_factory=time.time)

    @property
    def per_second(self) -> int:
        """Return how many rows come a second."""
        return self.rate * self.faster

    @property
    def whole_s(self) -> int:
        """Return how long rows come."""
        return WARM_S + self.seconds

    def event_at(self, made: Any) -> Any:
        """Return the event times, in seconds, of rows made at these moments."""
        return made - (self.faster - 1) * (self.started + self.whole_s - made)

    def made_at(self, event: Any) -> Any:
        """Return when rows of these event times were made."""
        return (event + (self.faster - 1) * (self.started + self.whole_s)) / self.faster


@dataclass
class Watch:
    """What is seen of a service from outside, second by second.

    ``memory``: of all its processes, ``java``: of the JVM among them; ``files``: how many its home has;
    ``open_files``: how many the service's own process and the JVM have, connections among them.
    """

    home: Home
    process: psutil.Process
    replay: Replay
    versions: list[tuple[float, int]] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    java: list[tuple[float, float]] = field(default_factory=list)
    files: list[tuple[float, float]] = field(default_factory=list)
    open_files: list[tuple[float, float]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Note versions every tenth of a second, memory and files every second, until the stop."""
        seen, last = 0, 0.0
        pointer = self.home.serving / "current"
        while not self.stop.wait(0.1):
            with suppress(FileNotFoundError, NotPublished):
                changed = pointer.stat().st_mtime_ns
                if changed != seen:
                    seen = changed
                    self.versions.append((changed / 1e9, self._newest_us()))
            if time.time() - last >= 1:
                last = time.time()
                rss = _rss_mb(self.process)
                self.memory.append((last, sum(rss.values())))
                self.java.append((last, rss.get("java", 0.0)))
                self.files.append((last, _files(self.home)))
                self.open_files.append((last, sum(each.num_fds() for each in _with_java(self.process))))

    def _newest_us(self) -> int:
        with open_published(self.home) as published:
            row = published.connection.execute("SELECT max(newest_us) FROM streams").fetchone()
        return int(row[0] or 0) if row else 0

    def freshness(self, start: float, end: float) -> np.ndarray[Any, Any]:
        """Return the seconds until a version held them, of rows made evenly between two moments."""
        made = np.arange(start, end, 0.05)
        at, newest = np.array(self.versions).T
        first = np.searchsorted(self.replay.made_at(np.maximum.accumulate(newest) / 1e6), made)
        return np.asarray(at[first] - made)

    def growth_mb_per_hour(self, start: float, end: float) -> float:
        """Return the slope of memory between two moments."""
        at, mb = np.array([pair for pair in self.memory if start <= pair[0] <= end]).T
        return float(np.polyfit((at - at[0]) / 3600, mb, 1)[0])


def _by_part(seen: list[tuple[float, float]], start: float, end: float) -> list[int]:
    """Return the median of what was seen in each of some equal parts of a time."""
    at, value = np.array(seen).T
    part = np.floor((at - start) / (end - start) * PARTS)
    return [round(float(np.median(value[part == number]))) for number in range(PARTS)]


def served(folder: Path, config: str, replay: Replay, before: int = 0) -> dict[str, Any]:
    """Let a service of a home take in what is replayed, and return what was seen of it.

    ``before``: how many rows the home has already.
    """
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "tidemark.toml").write_text(config)
    home = Home(folder / "var")
    with _served(folder) as service, _watched(home, service, replay) as watch:
        replay.started = time.time()
        # The first rows meet a JVM that has compiled nothing yet.
        written = _write(folder / "landing", replay)
        ended = time.time()
        _until_published(home, before + written)
        begin = replay.started + WARM_S
        fresh = watch.freshness(begin, ended - BETWEEN_FILES_S)
        tables = {name: read_log(getattr(home, name)("readings")) for name in ("raw", "rollup", "ledger")}
        ledger = tables["ledger"]
        return {
            "freshness_p50_s": round(float(np.quantile(fresh, 0.5)), 2),
            "freshness_p95_s": round(float(np.quantile(fresh, 0.95)), 2),
            "freshness_of_the_service_p50_s": (service_heartbeat(home) or {})["streams"]["readings"]["p50_s"],
            "faster": replay.faster,
            "rss_mb": round(watch.memory[-1][1]),
            "rss_growth_mb_per_hour": round(watch.growth_mb_per_hour(begin + replay.seconds / 2, ended)),
            "rss_mb_by_part": _by_part(watch.memory, begin, ended),
            "rss_java_mb_by_part": _by_part(watch.java, begin, ended),
            "open_files_by_part": _by_part(watch.open_files, begin, ended),
            "files_on_disk_by_part": _by_part(watch.files, begin, ended),
            "rows": written,
            "batches": (ledger.rows or 0) if ledger else 0,
            "versions": len(watch.versions),
            "live_files": sum(len(log.files) for log in tables.values() if log),
            "files_on_disk": _files(home),
            "cpu_s_per_s": round(_cpu_s(service) / (time.time() - replay.started), 2),
        }


@contextmanager
def _served(folder: Path) -> Iterator[psutil.Process]:
    command = [sys.executable, "-m", "lakehouse.cli", "--config", str(folder / "tidemark.toml"), "serve"]
    with (folder / "serve.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            home = Home(folder / "var")
            while (service_heartbeat(home) or {}).get("state") != "running":
                assert process.poll() is None, (folder / "serve.log").read_text()
                time.sleep(0.2)
            yield psutil.Process(process.pid)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 143
        finally:
            if process.poll() is None:
                process.kill()


@contextmanager
def _watched(home: Home, service: psutil.Process, replay: Replay) -> Iterator[Watch]:
    watch = Watch(home, service, replay)
    thread = threading.Thread(target=watch.look)
    thread.start()
    try:
        yield watch
    finally:
        watch.stop.set()
        thread.join()


def _write(landing: Path, replay: Replay) -> int:
    """Write a file a second with the rows made in it, as long as it lasts; return how many rows."""
    random = np.random.default_rng(9)
    count, files = round(replay.per_second * BETWEEN_FILES_S), round(replay.whole_s / BETWEEN_FILES_S)
    rests = [
        f",device-{device},{temp:.2f},{humidity:.1f}\n"
        for device, temp, humidity in zip(
            random.integers(0, DEVICES, count),
            random.normal(20, 5, count),
            random.normal(50, 9, count),
            strict=True,
        )
    ]
    for number in range(files):
        first = replay.started + number * BETWEEN_FILES_S
        time.sleep(max(0.0, first + BETWEEN_FILES_S - time.time()))
        made = first + np.arange(count) * (BETWEEN_FILES_S / count)
        times = (replay.event_at(made) * 1e6).astype(np.int64).tolist()
        scratch = landing / f".{number:06d}"
        scratch.write_text("ts,device,temp,humidity\n" + "".join(map(str.__add__, map(str, times), rests)))
        scratch.rename(landing / f"{replay.rate}-{number:06d}.csv")
    return count * files


def _until_published(home: Home, rows: int) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        with suppress(NotPublished):
            [answer] = ask(home, "readings", "temp", "count", "2020-01-01", "2100-01-01")
            if answer.value == rows:
                return
        time.sleep(0.5)
    raise RuntimeError(f"not all of {rows} rows were published")


def _files(home: Home) -> int:
    return sum(len(files) for _, _, files in os.walk(home.root))


def _family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def _with_java(process: psutil.Process) -> list[psutil.Process]:
    return [process, *(each for each in process.children() if each.name() == "java")]


def _rss_mb(process: psutil.Process) -> dict[str, float]:
    """Return the memory of a service's processes by their name."""
    found: dict[str, float] = {}
    for each in _family(process):
        with suppress(psutil.NoSuchProcess):
            found[each.name()] = found.get(each.name(), 0.0) + each.memory_info().rss / 1e6
    return found


def _cpu_s(process: psutil.Process) -> float:
    total = 0.0
    for each in _family(process):
        with suppress(psutil.NoSuchProcess):
            spent = each.cpu_times()
            total += spent.user + spent.system
    return total

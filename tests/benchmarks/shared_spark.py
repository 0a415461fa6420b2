"""The cost of an ingest job in a process of its own: with a Spark of its own, and with one shared over Spark Connect.

    python -m tests.benchmarks.start shared_spark [--quick] [--json]

A file of a thousand rows, read by ``python -m jobs.ingest`` as a standing Airflow's tasks do, in homes of their own.
``own_``: ``master = "local[*]"``; ``shared_``: ``sc://``, of a server that runs ``local[*]`` and has run one such job.
Seconds of the clock and of processors, those of the server included; medians of five, in turn. ``server_start_s``: how
long the server takes to start, once.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.benchmarks.parts import cpu_s
from tests.support.servers import free_port

RUNS, ROWS = 5, 1_000
# Of prctl: orphans, such as the JVM of a job that has ended, become children of this process, and their time its own.
TAKE_ORPHANS = 36
SECRET = "of-a-benchmark"
CONFIG = """
[streams.pond]
event_time = { column = "at", unit = "s" }
columns = { station = "string", depth = "int" }
keys = ["station"]
measures = ["depth"]
levels = ["1s for 1h", "1h forever"]
source = { path = "landing/*.csv", format = "csv", settle = "0s" }
"""


def figures(quick: bool) -> dict[str, float]:
    """Return what a job takes both ways."""
    ctypes.CDLL(None).prctl(TAKE_ORPHANS, 1)
    taken: dict[str, list[float]] = {}
    address = f"sc://localhost:{free_port()}"
    shared = {"TIDEMARK_SPARK__MASTER": address, "TIDEMARK_SPARK__SECRET": SECRET}
    ways = {"own": {"TIDEMARK_SPARK__MASTER": "local[*]"}, "shared": shared}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        started = time.perf_counter()
        with server(made(Path(name) / "server"), shared) as running:
            server_s = time.perf_counter() - started
            _run(made(Path(name) / "warm"), shared)
            for number in range(1 if quick else RUNS):
                for way, variables in ways.items():
                    folder = made(Path(name) / f"{way}-{number}")
                    began, before = time.perf_counter(), cpu_s()
                    _run(folder, variables)
                    taken.setdefault(f"{way}_s", []).append(time.perf_counter() - began)
                    wait_for_orphans(running)
                    taken.setdefault(f"{way}_processor_s", []).append(cpu_s() - before)
    medians = {name: round(statistics.median(each), 2) for name, each in taken.items()}
    return {**medians, "server_start_s": round(server_s, 1)}


def made(folder: Path) -> Path:
    """Return a folder with a configuration and a landed file."""
    (folder / "landing").mkdir(parents=True)
    (folder / "tidemark.toml").write_text(CONFIG)
    lines = (f"{1_600_000_000 + n},s{n % 7},{n % 100}\n" for n in range(ROWS))
    (folder / "landing" / "1.csv").write_text("at,station,depth\n" + "".join(lines))
    return folder


@contextmanager
def server(folder: Path, variables: Mapping[str, str]) -> Iterator[int]:
    """Start a server of Spark Connect; yield its process."""
    called = [sys.executable, "-m", "lakehouse.cli", "spark", "--connect"]
    with subprocess.Popen(
        called, cwd=folder, env=_environment(variables), stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None and running.stdout.readline()
        try:
            yield running.pid
        finally:
            running.terminate()


def _run(folder: Path, variables: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "jobs.ingest", "pond"]
    subprocess.run(command, cwd=folder, env=_environment(variables), check=True, capture_output=True)


def wait_for_orphans(kept: int) -> None:
    """Wait for all children of this process but one."""
    for child in psutil.Process().children():
        if child.pid != kept:
            os.waitpid(child.pid, 0)


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "TIDEMARK_ENGINE__RUNNER": "spark", **variables}

"""Signatures of compiled loops: those that a small run of every kind adds to set-up's, or that hang on sizes.

A small array is in one piece whichever way it is laid out, so a loop that takes other layouts is compiled once more for
the first small one, which no set-up and no test is sure to meet. So loops take arrays that are in one piece by rows.

python -m tests.infra.signatures FOLDER prints both as JSON, by loop.
"""

from __future__ import annotations

import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
from numba.core.dispatcher import Dispatcher

import lakehouse.algorithms
from infra import compile_kernels
from jobs import build_rollups, ingest, maintain_queries, repair_late, run_queries
from lakehouse.settings import load_settings
from lakehouse.spark.session import build_session
from tests.algorithms.packets import made
from tests.support.readings import write

T0 = 1_600_000_000
STREAM = """
[streams.{0}]
event_time = {{ column = "ts", unit = "s" }}
arrival_time = {{ column = "received", unit = "s" }}
identity = ["device", "ts"]
keys = ["device", "room"]
measures = ["temp", "count"]
counters = ["count"]
groupings = [["device"], []]
levels = ["1s for 1m", "1m forever"]
[streams.{0}.source]
path = "landing/{0}-*.csv"
format = "csv"
settle = 0
[streams.{0}.columns]
device = "string"
room = "string"
ts = "int"
received = "int"
temp = "double"
count = "int"
"""
PACKETS = """
[streams.packets]
preset = "pcap"
source.path = "landing/*.pcap*"
source.settle = 0
"""
# Rows of a stream with counters are folded another way, and decimals are summed another way than doubles.
UNCOUNTED = STREAM.replace('counters = ["count"]', "").replace(
    'temp = "double"', 'temp = {{ type = "double", decimals = 2 }}'
)
JOIN = "SELECT a.device AS one, b.device AS other FROM alpha [RANGE 5 SECONDS] a JOIN beta b ON "
COUNTED = (
    "FROM alpha A[20 SECONDS], beta B[20 SECONDS] WHERE A.room = B.room AND A.temp >= 3 AND B.count < 9000"
)
QUERIES = {
    "equal": JOIN + "a.room = b.room RECALL 0.9 OVER 1 MINUTE",
    "warmer": JOIN + "a.room = b.room AND a.temp > b.temp + 1 RECALL 0.95 OVER 10 MINUTES EVERY 10 SECONDS",
    "near": JOIN + "ABS(a.temp - b.temp) <= 0.5 RECALL 0.9 OVER 1 MINUTE",
    "alarm": f"SELECT room, COUNT(*) {COUNTED} GROUP BY room HAVING COUNT(*) > 5 EVERY 10 SECONDS "
    "SLACK 5 SECONDS ALARM",
    "sums": f"SELECT COUNT(*), SUM(A.temp), MAX(B.temp) {COUNTED} EVERY 10 SECONDS SLACK 5 SECONDS",
    "moved": "SELECT a.device AS one FROM alpha [8 SECONDS] a JOIN beta [3 SECONDS] b ON a.room = b.room "
    "JOIN gamma [15 SECONDS] c ON c.room = b.room SLACK 2 SECONDS",
    "hot": "SELECT device, temp FROM alpha WHERE temp > 5",
}


def dispatchers() -> Iterator[tuple[str, Dispatcher]]:
    """Yield each compiled loop of the methods that are loaded, by module and name."""
    for module in list(sys.modules.values()):
        name = getattr(module, "__name__", "")
        if name.startswith("lakehouse."):
            for value in list(vars(module).values()):
                if isinstance(value, Dispatcher) and value.py_func.__module__ == name:
                    yield f"{name.removeprefix('lakehouse.')}.{value.py_func.__name__}", value


def signatures() -> dict[str, set[str]]:
    """Return the signatures of each compiled loop in this process."""
    return {name: {str(each) for each in loop.signatures} for name, loop in dispatchers()}


def _called() -> set[Dispatcher]:
    """Return the loops that loops of their module call: what these pass has one layout, whatever its size."""
    loops = [loop.py_func for _, loop in dispatchers()]
    return {
        loop.__globals__[name]
        for loop in loops
        for name in loop.__code__.co_names
        if isinstance(loop.__globals__.get(name), Dispatcher)
    }


def _by_size() -> dict[str, list[str]]:
    """Return the signatures with arrays that are not in one piece by rows, of loops that Python calls."""
    called, layout = _called(), re.compile("'[AF]', (True|False)")
    outer = {name: map(str, loop.signatures) for name, loop in dispatchers() if loop not in called}
    return {name: sorted(filter(layout.search, found)) for name, found in outer.items()}


def _land(landing: Path, part: int) -> None:
    dice = np.random.default_rng(part)
    for name in ("alpha", "beta", "gamma"):
        rows = ["device,room,ts,received,temp,count"]
        for n in range(200):
            ts = T0 + part * 100 + n // 2
            late = int(dice.exponential(8)) if n % 5 == 0 else 0
            rows.append(f"d{n % 7},r{n % 3},{ts},{ts + late},{dice.integers(0, 11)},{part * 200 + n}")
        (landing / f"{name}-{part}.csv").write_text("\n".join(rows) + "\n")
    frame = made.ethernet(made.ipv4(body=made.tcp()))
    packets = made.section() + made.interface() + made.enhanced(frame, T0 * 10**6)
    (landing / f"{part}.pcap").write_bytes(packets if part else made.pcap([(T0, 0, frame)]))


def run(folder: Path) -> None:
    """Ingest, roll up, run and repair queries of every kind twice, as the jobs do."""
    (folder / "landing").mkdir()
    streams = STREAM.format("alpha"), STREAM.format("beta"), UNCOUNTED.format("gamma"), PACKETS
    (folder / "tidemark.toml").write_text("".join(streams))
    write(folder, QUERIES)
    settings = load_settings(folder / "tidemark.toml")
    spark = build_session(settings)
    for part in range(2):
        _land(folder / "landing", part)
        for name in settings.streams:
            ingest.run(settings, spark, name)
            build_rollups.run(settings, spark, name)
        for job in (run_queries, repair_late, maintain_queries):
            for name in settings.registered:
                job.run(settings, spark, name)


def main() -> int:
    """Print what a run adds to the signatures that set-up makes, and those of layouts that small arrays lack."""
    for found in pkgutil.walk_packages(lakehouse.algorithms.__path__, "lakehouse.algorithms."):
        import_module(found.name)
    for compile_loops in compile_kernels.STEPS:
        compile_loops()
    before = signatures()
    run(Path(sys.argv[1]))
    added = {name: sorted(found - before.get(name, set())) for name, found in signatures().items()}
    parts = {"added": added, "by size": _by_size()}
    met = {part: {name: each for name, each in loops.items() if each} for part, loops in parts.items()}
    print(json.dumps(met, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

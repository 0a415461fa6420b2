"""Signatures of compiled loops: those that set-up makes, and those that a small run of every kind of query adds.

python -m tests.infra.signatures FOLDER prints the added ones as JSON, by loop.
"""

from __future__ import annotations

import json
import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
from numba.core.dispatcher import Dispatcher

import lakehouse.algorithms
from infra import compile_kernels
from jobs import build_rollups, ingest, maintain_queries, repair_late, run_queries
from lakehouse.declare.settings import Settings, load_settings
from lakehouse.spark.session import build_session
from tests.readings import write

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


def _land(settings: Settings, part: int) -> None:
    dice = np.random.default_rng(part)
    for name, stream in settings.streams.items():
        rows = ["device,room,ts,received,temp,count"]
        for n in range(200):
            ts = T0 + part * 100 + n // 2
            late = int(dice.exponential(8)) if n % 5 == 0 else 0
            rows.append(f"d{n % 7},r{n % 3},{ts},{ts + late},{dice.integers(0, 11)},{part * 200 + n}")
        Path(stream.source.path).with_name(f"{name}-{part}.csv").write_text("\n".join(rows) + "\n")


def run(folder: Path) -> None:
    """Ingest, roll up, run and repair queries of every kind twice, as the jobs do."""
    (folder / "landing").mkdir()
    (folder / "tidemark.toml").write_text("".join(STREAM.format(name) for name in ("alpha", "beta", "gamma")))
    write(folder, QUERIES)
    settings = load_settings(folder / "tidemark.toml")
    spark = build_session(settings)
    for part in range(2):
        _land(settings, part)
        for name in settings.streams:
            ingest.run(settings, spark, name)
            build_rollups.run(settings, spark, name)
        for job in (run_queries, repair_late, maintain_queries):
            for name in settings.registered:
                job.run(settings, spark, name)


def main() -> int:
    """Print what a run adds to the signatures that set-up makes."""
    for found in pkgutil.walk_packages(lakehouse.algorithms.__path__, "lakehouse.algorithms."):
        import_module(found.name)
    for compile_loops in compile_kernels.STEPS:
        compile_loops()
    before = signatures()
    run(Path(sys.argv[1]))
    added = {name: sorted(found - before.get(name, set())) for name, found in signatures().items()}
    print(json.dumps({name: found for name, found in added.items() if found}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

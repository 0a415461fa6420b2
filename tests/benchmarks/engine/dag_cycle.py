"""A cycle of DAGs by tasks that are processes: with a Spark of their own each, and with one that they share.

Two streams and a query that joins them. A minute of both lands; then each task from ingest to publish runs as its pod
does (``python -m jobs.run_task``), one after the other, in two homes of the same files: ``own`` starts Spark in each
task that needs it (``master = "local[*]"``), ``shared`` is a client of one server of Spark Connect (``sc://``), which
has run a cycle before. Airflow's own processes cost the same both ways and are not among the figures. Seconds of the
clock, and of processors with those of the server; medians of five cycles in turn, by task of the first stream.
``choose``: a task that starts no Spark, which is what Python and Airflow cost. Ratio: ``own`` to ``shared``.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakehouse.settings import Settings
from tests.benchmarks.page import table, write
from tests.benchmarks.parts import cpu_s
from tests.benchmarks.shared_spark import SECRET, TAKE_ORPHANS, made, server, wait_for_orphans
from tests.support.servers import free_port
from tests.support.standing_airflow import content, joined_home, land, published

CYCLES, WARM_UP, RECORDS = 5, 1, 60
STREAM, QUERY = "alpha", "near"
# A task of each DAG, and what it is called with; those of the second stream are run beside, and counted in ``cycle``.
TASKS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("ingest", "choose", {}),
    *(("ingest", f"take.{name}", {"stream": name}) for name in (STREAM, "delta")),
    *(("rollups", f"build.{name}", {"stream": name}) for name in (STREAM, "delta")),
    ("queries", f"join.{QUERY}", {"query": QUERY}),
    ("repair", f"complete.{QUERY}", {"query": QUERY}),
    *(("quality", f"check.{name}", {"stream": name}) for name in (STREAM, "delta")),
    ("publish", "release", {}),
)
HEADS = ("", "own: s", "CPU s", "shared: s", "CPU s", "ratio: s", "CPU s")
Taken = dict[str, list[tuple[float, float]]]


def figures(quick: bool) -> dict[str, Any]:
    """Return seconds of a cycle and of its tasks both ways; a full run writes them to a page.

    Raises:
        AssertionError: both ways do not come to the same contents.
    """
    ctypes.CDLL(None).prctl(TAKE_ORPHANS, 1)
    shared = {"TIDEMARK_SPARK__MASTER": f"sc://localhost:{free_port()}", "TIDEMARK_SPARK__SECRET": SECRET}
    ways = {"own": {"TIDEMARK_SPARK__MASTER": "local[*]"}, "shared": shared}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        homes = {way: joined_home(made_empty(Path(name) / way)) for way in ways}
        taken: dict[str, Taken] = {way: {} for way in ways}
        with server(made(Path(name) / "server"), shared) as running:
            for number in range(1 if quick else WARM_UP + CYCLES):
                for way, variables in ways.items():
                    _cycle(homes[way], number, variables, running, taken[way])
        found = [content(home) for home in homes.values()]
        assert found[0] == found[1], found
        assert all(published(home, STREAM) == RECORDS * (number + 1) for home in homes.values())
    lines = _lines(taken, 0 if quick else WARM_UP)
    if not quick:
        write("engine", "dag_cycle", "A cycle of DAGs", __doc__ or "", table(HEADS, lines))
    heads = ("own_s", "own_cpu_s", "shared_s", "shared_cpu_s", "ratio_s", "ratio_cpu_s")
    return {line[0]: dict(zip(heads, line[1:], strict=True)) for line in lines}


def made_empty(folder: Path) -> Path:
    """Return a new folder."""
    folder.mkdir()
    return folder


def _cycle(home: Settings, number: int, variables: Mapping[str, str], kept: int, taken: Taken) -> None:
    """Land a part of both streams, and run every task; add the seconds of each, and of all, to those before."""
    assert home.config is not None
    for stream in home.streams:
        land(home, stream, number)
    environment = {**os.environ, "TIDEMARK_ENGINE__RUNNER": "spark", **variables}
    environment |= {"TIDEMARK_CONFIG": str(home.config), "AIRFLOW_HOME": str(home.layout.airflow)}
    wall = cpu = 0.0
    for dag, task, named in TASKS:
        params = {"config": None, "streams": "all", "queries": "all", "from": None, "to": None}
        arguments = json.dumps({**named, "params": params})
        command = [sys.executable, "-m", "jobs.run_task", dag, task, "--arguments", arguments]
        began, before = time.perf_counter(), cpu_s()
        subprocess.run(command, check=True, env=environment, capture_output=True, cwd=home.config.parent)
        took = time.perf_counter() - began
        wait_for_orphans(kept)
        wall, cpu = wall + took, cpu + (used := cpu_s() - before)
        taken.setdefault(f"{dag} {task}", []).append((took, used))
    taken.setdefault("cycle", []).append((wall, cpu))


def _lines(taken: Mapping[str, Taken], warm_up: int) -> list[list[Any]]:
    lines = []
    for name in (*(f"{dag} {task}" for dag, task, _ in TASKS if not task.endswith("delta")), "cycle"):
        own, shared = (
            [statistics.median(each) for each in zip(*taken[way][name][warm_up:], strict=True)]
            for way in ("own", "shared")
        )
        ratios = [round(one / other, 2) for one, other in zip(own, shared, strict=True)]
        lines.append([name.partition(".")[0], *(round(each, 2) for each in (*own, *shared)), *ratios])
    return lines

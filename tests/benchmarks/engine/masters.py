"""The same input wherever tasks run: one setting chooses, and what comes of it is the same.

Streams, a join and an aggregate of ``tests/cluster/life.py``: rows, then late ones, through ingest, queries, repairs,
rollups and publish, in a new home and a process of its own for each way. *Content*: one hash over raw rows, nodes,
results and published answers. Seconds of the clock from the first batch to the last; of processors those of driver,
Java, workers and servers, with their start.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.loopback_cluster import free_port, loopback_cluster
from tests.benchmarks.page import table, write
from tests.benchmarks.parts import cpu_s
from tests.benchmarks.shared_spark import TAKE_ORPHANS, made, server, wait_for_orphans

ROWS, QUICK_ROWS = 80, 20
KINDS = "pairs,aggregate"
MASTER = "TIDEMARK_SPARK__MASTER"
WAYS = ("runner local", "local[1]", "local[2]", "two workers", "Spark Connect")
HEADS = ("", "content", "s", "CPU s")


def figures(quick: bool) -> dict[str, Any]:
    """Return hash and seconds of each way; a full run writes them to a page.

    Raises:
        AssertionError: a way comes to other contents.
    """
    ctypes.CDLL(None).prctl(TAKE_ORPHANS, 1)
    found = {way: _measured(way, QUICK_ROWS if quick else ROWS) for way in WAYS}
    assert len({each["content"] for each in found.values()}) == 1, found
    if not quick:
        lines = [[way, *each.values()] for way, each in found.items()]
        write("engine", "masters", "The same input wherever tasks run", __doc__ or "", table(HEADS, lines))
    return found


def _measured(way: str, rows: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        before, folder = cpu_s(), Path(name)
        with _place(way, folder) as (variables, kept):
            words = str(folder / "home"), "--rows", str(rows), "--kinds", KINDS
            runner = "--runner", "local" if way == "runner local" else "spark"
            command = [sys.executable, "-m", "tests.cluster.life", *words, *runner]
            environment = {**os.environ, **variables}
            ended = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
            if kept is not None:
                wait_for_orphans(kept)
            taken = cpu_s() - before
    told = json.loads(ended.stdout.splitlines()[-1])
    content = hashlib.sha256(json.dumps(told["content"], sort_keys=True).encode()).hexdigest()[:12]
    return {"content": content, "s": round(told["seconds"], 1), "cpu_s": round(taken, 1)}


@contextmanager
def _place(way: str, folder: Path) -> Iterator[tuple[Mapping[str, str], int | None]]:
    """Yield the setting of a way; the process to leave when orphans are waited for, None to wait for none."""
    if way == "runner local":
        yield {}, os.getpid()
    elif way == "two workers":
        with loopback_cluster(folder / "cluster", 2) as cluster:
            yield cluster.environment, None
    elif way == "Spark Connect":
        shared = {MASTER: f"sc://localhost:{free_port()}", "TIDEMARK_SPARK__SECRET": "of-a-benchmark"}
        with server(made(folder / "server"), shared) as running:
            yield shared, running
    else:
        yield {MASTER: way}, os.getpid()

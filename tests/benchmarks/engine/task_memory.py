"""A batch larger than a task's memory: the most that one Python of a task holds in each step.

The streams and queries of ``query_batch``, as one file for each stream and one batch: half a million rows of each, then
a million. Ingests, rollups, two queries and their repairs, on Spark's runner with two cores, as on a machine that has
512 MB for each. Megabytes of resident memory that the largest of the tasks' processes has had in a step, of which
150 to 270 are Python, packages and compiled kernels; megabytes of the landed files. ``--quick``: 20,000 rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from lakehouse.spark.session import build_session, end_session
from tests.benchmarks.engine.rounds import STEPS
from tests.benchmarks.page import table, write
from tests.benchmarks.parts import sampling
from tests.benchmarks.query_batch import QUERIES, Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings

SIZES, QUICK_SIZES = (1_000_000, 2_000_000), (20_000,)
SETTINGS = {"TIDEMARK_ENGINE__RUNNER": "spark", "TIDEMARK_SPARK__MASTER": "local[2]"}
# Workers are children of their daemon, and have its command.
DAEMON = "tests.support.small_machine"


def figures(quick: bool) -> dict[str, Any]:
    """Return the figures of each size; a full run writes them to a page."""
    found: dict[str, dict[str, int]] = {}
    for rows in QUICK_SIZES if quick else SIZES:
        found[f"{rows:,} rows"] = measured(rows)
    if not quick:
        heads = ["", *found]
        lines = [[name, *(each[name] for each in found.values())] for name in next(iter(found.values()))]
        write("engine", "task_memory", "Memory of a task", __doc__ or "", table(heads, lines))
    return found


def measured(rows: int) -> dict[str, int]:
    """Return the megabytes of each step, in a process of its own."""
    called = [sys.executable, "-m", __spec__.name, str(rows)]
    environment = os.environ | SETTINGS
    printed = subprocess.run(called, check=True, env=environment, capture_output=True, text=True).stdout
    found: dict[str, int] = json.loads(printed.splitlines()[-1])
    return found


def _session(settings: Settings) -> SparkSession:
    options = {**settings.spark.options, "spark.python.daemon.module": DAEMON}
    spark = settings.spark.model_copy(update={"options": options})
    return build_session(settings.model_copy(update={"spark": spark}))


def _measured(folder: Path, rows: int) -> dict[str, int]:
    home = Home(folder, QUERIES, False, session_of=_session)
    home.write(rows)
    landed = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    found = {"landed MB": round(landed / 2**20)}
    for step, (job, names) in STEPS.items():
        with watched_tasks() as peaks:
            for name in names:
                job(home.settings, home.spark, name)
        found[f"{step} MB"] = round(max(peaks.values(), default=0) / 1024)
    end_session(home.spark)
    return found


@contextmanager
def watched_tasks() -> Iterator[dict[int, int]]:
    """Yield the kilobytes that each Python of a task has held at most during the block, by process."""
    peaks = dict[int, int]()

    def look() -> None:
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error, OSError, StopIteration):
                if DAEMON not in child.cmdline():
                    continue
                if child.pid not in peaks:
                    # From here on its peak is that of this block.
                    Path(f"/proc/{child.pid}/clear_refs").write_text("5")
                lines = Path(f"/proc/{child.pid}/status").read_text().splitlines()
                peaks[child.pid] = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    with sampling(look, 0.05):
        yield peaks


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        print(json.dumps(_measured(Path(name) / "home", int(sys.argv[1]))))

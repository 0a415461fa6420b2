"""Time of a job from the shell until its first rows are in a table, with the archive of classes and without.

    python -m tests.benchmarks.start [--quick] [--json]

A job of its own process each time: session, then a table of a thousand rows written and read. Both ways in turn,
seven times each, once with ``--quick``; medians. The archive is that of this environment (``make setup``).
``idle_run``: what ``tidemark run`` costs where little or nothing has come. ``arrow_job``: what a warm Spark job costs.
``rollup_job``: a rollup of new rows by either runner. ``shared_spark``: an ingest job with a Spark of its own,
and with one that jobs share. ``demo``: the tour of ``make demo``. ``standing_airflow``: from a file to its version.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time

from lakehouse.spark.archived_classes import archive_file
from tests.benchmarks.parts import run_parts

RUNS, QUICK_RUNS = 7, 1
WITHOUT = "from lakehouse.spark import archived_classes; archived_classes.archive_option = lambda: ''\n"
JOB = """
import sys
from pathlib import Path
from lakehouse.settings import Settings
from lakehouse.spark.session import started_session
spark = started_session(Settings(home=Path(sys.argv[1])))
table = sys.argv[1] + "/table"
spark.range(1000).write.format("delta").save(table)
assert spark.read.format("delta").load(table).count() == 1000
"""


def figures(quick: bool) -> dict[str, float]:
    """Return the median seconds of both ways and their ratio."""
    assert archive_file().is_file(), f"no {archive_file()}: run `make setup` first"
    taken: dict[str, list[float]] = {"archive_s": [], "without_s": []}
    for _ in range(QUICK_RUNS if quick else RUNS):
        taken["without_s"].append(_seconds(WITHOUT + JOB))
        taken["archive_s"].append(_seconds(JOB))
    median = {name: round(statistics.median(seconds), 2) for name, seconds in taken.items()}
    return {**median, "speedup": round(median["without_s"] / median["archive_s"], 2)}


def _seconds(words: str) -> float:
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", words, folder], check=True, capture_output=True)
        return time.perf_counter() - started


if __name__ == "__main__":
    run_parts(
        __doc__,
        __package__,
        ("start",),
        only_in_full=("idle_run", "arrow_job", "rollup_job", "shared_spark", "demo", "standing_airflow"),
    )

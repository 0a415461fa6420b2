"""Time from the landing of a file to the version that has it, in a standing Airflow, beside streams that fail or wait.

    python -m tests.benchmarks.start standing_airflow [--json]

Airflow as `tidemark airflow` starts it, which looks every ten seconds. A file of 60 rows lands for each of three
streams: one is read, one fails, without retries, and one is held by another process. Seconds until a version has the
file of the first, from a moment of any ten seconds; median and longest of five, of tasks that run kernels themselves,
and of tasks that start Spark. The longest must be under a minute: the machine must have nothing else to do.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from infra.airflow_standalone import serving
from lakehouse.settings import Settings
from lakehouse.storage.control.lease import lease
from tests.benchmarks.page import table, write
from tests.support.servers import free_port
from tests.support.standing_airflow import home_of, land, published, wait_for

RUNS, RECORDS, MOST_S = 5, 60, 60.0
OFTEN = """
[airflow]
ingest = "* * * * * */10"
retries = 0
"""


def figures(quick: bool) -> dict[str, float]:
    """Return the seconds of both runners; a full run writes those of each file to a page."""
    found: dict[str, float] = {}
    lines = []
    for runner in ("local", "spark"):
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
            taken = _taken(Path(name), runner, 1 if quick else RUNS)
        lines.append([runner, *(round(seconds, 1) for seconds in taken)])
        found |= {f"{runner}_s": round(statistics.median(taken), 1), f"{runner}_most_s": round(max(taken), 1)}
    assert max(found.values()) <= MOST_S, found
    if not quick:
        heads = ["runner", *(f"file {number}, s" for number in range(1, RUNS + 1))]
        write("start", "standing_airflow", "From a file to its version", __doc__ or "", table(heads, lines))
    return found


def _taken(folder: Path, runner: str, runs: int) -> list[float]:
    """Return how long each file took; the first one, with which tables are made, is not counted."""
    settings = home_of(folder, ("good", "failing", "slow"), OFTEN)
    layout, taken = settings.layout, []
    layout.raw("failing").parent.mkdir(parents=True)
    Path(layout.raw("failing")).touch()
    with (
        patch.dict(os.environ, TIDEMARK_ENGINE__RUNNER=runner),
        lease(layout, layout.raw("slow")),
        serving(settings, free_port()),
    ):
        for part in range(runs + 1):
            taken.append(_published_s(settings, part))
            # Not at the same moment of each ten seconds.
            time.sleep(3)
    return taken[1:]


def _published_s(settings: Settings, part: int) -> float:
    """Land a part of each stream; return how long it takes until the good one's is published."""
    for stream in settings.streams:
        land(settings, stream, part)
    return wait_for(lambda: published(settings, "good") == (part + 1) * RECORDS)

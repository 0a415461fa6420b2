"""The driver's JVM dies alone, while Python lives, at each place that jobs pass whose work is Spark's.

Rows are judged, counted and published by Spark's tasks whatever their number, a query calls a predicate of Python, and
a rollup is built anew. What was running must end with an error that says what has happened, and the same jobs in
another process come to the same tables.

    python -m tests.faults.engine CONFIG [STEP]      runs the jobs; the JVM dies at this place
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from jobs import build_rollups, ingest, publish, run_queries
from jobs.running.outcome import ALL_STREAMS, recorded
from lakehouse.config.problems import EngineEnded
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import started_session
from tests.cluster import life
from tests.faults.lab import Verdict, differences
from tests.faults.report import Progress

# The quick one is before the task of a query, whose end could be taken for the fault of that query.
KIND, ROWS, QUICK_STEP = "selection", 60, 9
# Far above what the jobs take where many other processes run.
TIMEOUT_S = 900.0
# One JVM for each; more are slower than one after the other.
AT_ONCE = 2
Work = tuple[str, str, Callable[[], dict[str, Any]]]


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Kill the JVM at every place, or at one; say what is wrong after it."""
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name:
        kept = Path(name) / "kept"
        settings = life.begin(kept, [KIND])
        for part in life.PARTS:
            life.land(settings, part, ROWS)
        expected = _ended(_copied(kept, "undisturbed"), None)
        steps = [QUICK_STEP] if quick else list(range(len(expected["passed"])))
        judged = partial(_judged, kept, expected["content"])
        with ThreadPoolExecutor(1 if quick else AT_ONCE) as pool:
            verdicts = list(progress(pool.map(judged, steps), len(steps)))
    named = zip(steps, verdicts, strict=True)
    broken = [f"JVM killed at {expected['passed'][step]} ({step}): {v}" for step, v in named if v]
    return {"killed": len(steps), "places": len(set(expected["passed"])), "broken": broken}


def _judged(kept: Path, expected: dict[str, str], step: int) -> Verdict:
    """Kill the JVM at a step; say what is wrong with how that ended, or with the tables after the next run."""
    folder = _copied(kept, f"step-{step}")
    try:
        killed = _ended(folder, step)
        # What comes after the last place may need no engine.
        if killed["error"] not in (EngineEnded.__name__, None):
            return f"ended with {killed['error']}: {killed['said']}"
        again = _ended(folder, None)
        return again["said"] or differences(expected, again["content"])
    except (subprocess.TimeoutExpired, RuntimeError) as failure:
        return str(failure)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copied(kept: Path, name: str) -> Path:
    return Path(shutil.copytree(kept, kept.parent / name))


def _ended(folder: Path, step: int | None) -> dict[str, Any]:
    """Run the jobs in a process of their own; return what it tells.

    Raises:
        RuntimeError: where it tells nothing.
        subprocess.TimeoutExpired: where it does not end.
    """
    words = [str(folder / "tidemark.toml"), *([] if step is None else [str(step)])]
    command = [sys.executable, "-m", "tests.faults.engine", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if ended.returncode:
        raise RuntimeError(ended.stderr[-600:])
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


def _work(settings: Settings) -> Iterator[Work]:
    """Yield the jobs in order, of the streams and queries of the settings."""
    spark = started_session(settings)
    for name in life.streams_of(settings):
        yield "ingest", name, partial(ingest.run, settings, spark, name)
        yield "build_rollups", name, partial(build_rollups.run, settings, spark, name)
    for name in settings.registered:
        yield "run_queries", name, partial(run_queries.run, settings, spark, name)
    for name in life.streams_of(settings):
        yield "rebuild", name, partial(build_rollups.rebuild, settings, spark, name)
    yield "publish", ALL_STREAMS, partial(publish.run, settings, spark, unchecked=True)


def _told(config: Path, step: int | None) -> dict[str, Any]:
    """Run the jobs; tell what places they passed, the kind and the text of the error, and what the tables hold."""
    from pyspark import SparkContext

    passed = list[str]()

    def at_place(event: str, names: Any) -> None:
        if event == "tidemark.crash_point":
            passed.append(names[0])
            if len(passed) - 1 == step:
                SparkContext._gateway.proc.kill()  # type: ignore[union-attr]

    settings, error, said = load_settings(config), None, ""
    sys.addaudithook(at_place)
    try:
        for job, name, work in _work(settings):
            recorded(job, settings, name, work)
    except Exception as failure:
        error, said = type(failure).__name__, str(failure)[-600:]
    content = life.content(settings) if error is None else {}
    return {"passed": passed, "error": error, "said": said, "content": content}


if __name__ == "__main__":
    print(json.dumps(_told(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)), flush=True)

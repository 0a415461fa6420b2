"""Run a job's work and record its outcome, for ``tidemark status`` and the next run.

recorded(...)            run, keep the outcome in the control store, tell listeners, pass the error on
with reporting(tell):    ``tell`` gets every outcome of this process during the block
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakehouse.config.durations import iso_timestamp
from lakehouse.service.ending import leave_if_heard
from lakehouse.service.lineage import JobRun
from lakehouse.settings import Settings
from lakehouse.storage.control.outcomes import error_text, record
from lakehouse.storage.tables.integrity import naming_damage

log = logging.getLogger(__name__)
ALL_STREAMS = "all"
Outcome = dict[str, Any]
# Outcomes are recorded deep in DAGs and services, to which nobody passes a listener.
_listeners: list[Callable[[Outcome], None]] = []


def recorded(job: str, settings: Settings, stream: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of ``work`` after its outcome is on disk; an error is recorded and raised again.

    The outcome also says what Spark did for it, as its figure ``spark``. Raises DamagedFile: instead of an error that
    a damaged file of a table caused; EngineEnded: instead of Python's error when Spark's JVM has ended.
    """
    from lakehouse.engine.work import counted
    from lakehouse.spark.session import naming_death

    leave_if_heard()
    started, clock = datetime.now(UTC), time.perf_counter()
    lineage = JobRun(settings, job, stream)
    lineage.started()
    figures: dict[str, Any] = {}
    error: str | None = None
    try:
        with naming_damage(settings.layout), naming_death(), counted() as done:
            figures = work()
        if done.jobs:
            figures = {**figures, "spark": asdict(done)}
        return figures
    except BaseException as failure:
        error = error_text(failure)
        raise
    finally:
        seconds = time.perf_counter() - clock
        outcome = record(settings.layout, job, stream, error is None, started, seconds, figures, error)
        lineage.ended(error)
        for listener in list(_listeners):
            listener(outcome)
        # Airflow would take an interruption for the failure of one task, and go on with the next.
        leave_if_heard()


def job_of(run: Callable[..., Any]) -> str:
    """Return the job name of a module's ``run``, also if a shell runs that module."""
    module = run.__module__
    return Path(sys.argv[0]).stem if module == "__main__" else module.rpartition(".")[2]


@contextmanager
def reporting(listener: Callable[[Outcome], None]) -> Iterator[None]:
    """Pass every outcome recorded in this process during the block to a listener."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def logged(outcome: Outcome) -> None:
    """Log an outcome: a line with counts, or the error; its fields are attached."""
    line = f"{outcome['job']} {outcome['stream']} {outcome['seconds']:.1f} s"
    level = logging.INFO if outcome["ok"] else logging.WARNING
    end = counts_of(outcome) if outcome["ok"] else f"FAILED {outcome['error']}"
    log.log(level, "%s  %s", line, end, extra=outcome)


def log_figures(outcome: Outcome) -> None:
    """Log what a job did, each figure on a line of its own; that it failed is told by its error."""
    if not outcome["ok"]:
        return
    log.info("%s of %s took %.1f s", outcome["job"], outcome["stream"], outcome["seconds"])
    for name, value in outcome["figures"].items():
        if value and name != "spark":
            shown = iso_timestamp(value) if name.endswith("_us") else value
            log.info("  %s: %s", name.removesuffix("_us").replace("_", " "), shown)
    if done := outcome["figures"].get("spark"):
        log.info("  %s", _of_spark(done))


def counts_of(outcome: Outcome) -> str:
    """Return the figures of an outcome that count something that exists, and what Spark did for it."""
    figures = outcome["figures"]
    counts = ", ".join(f"{name} {value}" for name, value in figures.items() if value and type(value) is int)
    return f"{counts}; {_of_spark(figures['spark'])}" if figures.get("spark") else counts


def _of_spark(done: dict[str, int]) -> str:
    shuffled = f", {done['shuffled_bytes'] / 1024:,.0f} kB shuffled" if done["shuffled_bytes"] else ""
    return f"Spark: jobs {done['jobs']}, tasks {done['tasks']}{shuffled}"

"""Run a job's work and record its outcome, for ``tidemark status`` and the next run.

recorded(...)            run, keep the outcome in the control store, tell listeners, pass the error on
with reporting(tell):    ``tell`` gets every outcome of this process during the block
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakehouse.declare.settings import Settings
from lakehouse.home.integrity import naming_damage
from lakehouse.home.outcomes import error_text, record
from lakehouse.service.ending import leave_if_heard
from lakehouse.service.lineage import JobRun

log = logging.getLogger(__name__)
ALL_STREAMS = "all"
Outcome = dict[str, Any]
_listeners: list[Callable[[Outcome], None]] = []


def recorded(job: str, settings: Settings, stream: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of ``work`` after its outcome is on disk; an error is recorded and raised again.

    Raises:
        DamagedFile: instead of an error that a damaged file of a table caused.
        EngineEnded: instead of Python's error when Spark's JVM has ended.
    """
    from lakehouse.spark.session import naming_death

    leave_if_heard()
    started, clock = datetime.now(UTC), time.perf_counter()
    lineage = JobRun(settings, job, stream)
    lineage.started()
    figures: dict[str, Any] = {}
    error: str | None = None
    try:
        with naming_damage(settings.layout), naming_death():
            figures = work()
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
    counts = ", ".join(f"{name} {value}" for name, value in outcome["figures"].items() if is_count(value))
    line = f"{outcome['job']} {outcome['stream']} {outcome['seconds']:.1f} s"
    level = logging.INFO if outcome["ok"] else logging.WARNING
    log.log(level, "%s  %s", line, counts if outcome["ok"] else f"FAILED {outcome['error']}", extra=outcome)


def is_count(value: object) -> bool:
    """Return whether a figure counts something that exists."""
    return isinstance(value, int) and not isinstance(value, bool) and value != 0

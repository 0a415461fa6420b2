"""Run a job's work and record how it ended, so that ``tidemark status`` and the next run can tell.

recorded(...)            run, write runs/<job>-<stream>.json, tell listeners, hand the error on
with reporting(tell):    ``tell`` hears every outcome of this process while the block lasts
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from lakehouse.catalog.outcomes import record
from lakehouse.catalog.settings import Settings

ALL_STREAMS = "all"
Outcome = dict[str, Any]
_listeners: list[Callable[[Outcome], None]] = []


def recorded(job: str, settings: Settings, stream: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of ``work`` once its outcome is on disk; an error is recorded and raised again."""
    started, clock = datetime.now(UTC), time.perf_counter()
    figures: dict[str, Any] = {}
    error: str | None = None
    try:
        figures = work()
        return figures
    except BaseException as failure:
        error = told(failure)
        raise
    finally:
        seconds = time.perf_counter() - clock
        outcome = record(settings.layout, job, stream, error is None, started, seconds, figures, error)
        for listener in list(_listeners):
            listener(outcome)


@contextmanager
def reporting(listener: Callable[[Outcome], None]) -> Iterator[None]:
    """Let a listener hear every outcome that is recorded in this process during the block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def told(failure: BaseException) -> str:
    """Return what an error says to people: its own words, without the JVM's stack."""
    text = str(failure).split("\n\nJVM stacktrace:")[0].strip()
    ours = type(failure).__module__.partition(".")[0] in ("jobs", "lakehouse", "quality")
    return text if ours and text else f"{type(failure).__name__}: {text}".removesuffix(": ")

"""One task of a service: a probe that looks for new data, the job that processes it, and retries of failures.

A permanent error (``Permanent``) is logged once, and retried like others, as people correct it beside the service.

While a probe returns the same value as before the last run that ended well, there is nothing to do. The value is taken
before the run, so whatever comes in meanwhile is seen by the next probe.
"""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

from lakehouse.config.problems import Permanent
from lakehouse.storage.control.lease import LeaseHeld
from lakehouse.storage.control.outcomes import error_text

log = logging.getLogger(__name__)
LONGEST_WAIT_S = 60.0
# Upper ends of the bins that seconds are counted in; one bin more holds the rest.
SECONDS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 60.0, 120.0, 300.0)
NOTHING_SEEN = object()
Clock = Callable[[], float]


def wait_s(failures: int, every_s: float) -> float:
    """Return how long to wait after so many failures in a row: doubled with each, at most ``LONGEST_WAIT_S``.

    >>> [wait_s(failures, 2.0) for failures in (1, 2, 3, 50)]
    [4.0, 8.0, 16.0, 60.0]
    """
    return min(LONGEST_WAIT_S, max(1.0, every_s) * 2.0 ** min(failures, 10))


@dataclass
class Tally:
    """Counts of a task since the service started: runs that ended well, failures, and how long the runs took."""

    runs: int = 0
    failures: int = 0
    seconds: float = 0.0
    bins: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))

    def add(self, seconds: float) -> None:
        """Count one run that ended well."""
        self.runs += 1
        self.seconds += seconds
        self.bins[bisect_left(SECONDS, seconds)] += 1


@dataclass
class Task:
    """A job for one stream or query, run whenever its probe shows something new.

    ``probe`` must be cheap and may raise. ``work`` may be killed anywhere: running it again completes it.
    Runs start at most every ``pace_s`` on average, and never sooner than half of it after one another: a run that began
    late takes nothing from the time of the next, or all that follow would stay late. ``alone`` gives what is held
    during a run.
    """

    job: str
    name: str
    probe: Callable[[], Hashable]
    work: Callable[[], Any]
    every_s: float = 2.0
    pace_s: float = 0.0
    alone: Callable[[], AbstractContextManager[object]] = nullcontext
    clock: Clock = time.monotonic
    seen: object = NOTHING_SEEN
    failures: int = 0
    error: str | None = None
    is_permanent: bool = False
    not_before: float = 0.0
    running_since: float | None = None
    tally: Tally = field(default_factory=Tally)

    def run_if_new(self) -> bool:
        """Probe, and run where something is new; return whether it ran. Never raises an ``Exception``."""
        if self.clock() < self.not_before:
            return False
        try:
            return self._probe_and_run()
        except LeaseHeld as busy:
            # Another process holds the table at this time, such as a repair: no failure, the next probe tries again.
            log.debug("%s %s waits: %s", self.job, self.name, busy)
        except Exception as error:
            self._failed(error)
        finally:
            self.running_since = None
        return False

    @property
    def state(self) -> str:
        """``running``, ``failing`` (waits to be tried again) or ``waiting`` (for something new)."""
        if self.running_since is not None:
            return "running"
        return "failing" if self.failures else "waiting"

    def snapshot(self) -> dict[str, Any]:
        """Return its state as plain values; seconds count from now on, or up to now."""
        now, since = self.clock(), self.running_since
        return {
            "job": self.job,
            "name": self.name,
            "state": self.state,
            "running_s": None if since is None else round(now - since, 1),
            "failures": self.failures,
            "again_in_s": round(max(0.0, self.not_before - now), 1) if self.failures else None,
            "error": self.error,
            "is_permanent": self.is_permanent,
            "tally": asdict(self.tally),
        }

    def _probe_and_run(self) -> bool:
        shown = self.probe()
        is_new = shown != self.seen
        if is_new:
            with self.alone():
                # What came while it waited is part of this run.
                shown = self.probe()
                started = self.clock()
                self.running_since = started
                self.not_before = max(self.not_before, started - self.pace_s / 2) + self.pace_s
                self.work()
                self.tally.add(self.clock() - started)
        self.seen, self.failures, self.error, self.is_permanent = shown, 0, None, False
        return is_new

    def _failed(self, error: Exception) -> None:
        text = error_text(error)
        # It stays until somebody changes something, who reads it once: the retries look whether that has happened.
        is_known = isinstance(error, Permanent) and text == self.error
        self.failures += 1
        self.tally.failures += 1
        self.error, self.is_permanent = text, isinstance(error, Permanent)
        wait = wait_s(self.failures, self.every_s)
        self.not_before = self.clock() + wait
        facts = {"job": self.job, "stream": self.name, "failures": self.failures, "again_in_s": wait}
        when = "until that is changed" if self.is_permanent else f"again in {wait:.0f} s"
        level = logging.DEBUG if is_known else logging.ERROR
        log.log(level, "%s %s failed, %s: %s", self.job, self.name, when, text, extra=facts)

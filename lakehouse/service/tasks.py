"""One step of a service: it looks first, works only where something is new, and waits longer each time it fails.

What a look shows decides: the same as before the last work that ended well means that there is nothing to do. A look
is taken before the work, so whatever comes meanwhile is seen by the next one.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

from lakehouse.home.lease import LeaseHeld
from lakehouse.home.outcomes import told

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
    """What a turn has come to since the service began: works, failures, and how long the works took."""

    works: int = 0
    failures: int = 0
    seconds: float = 0.0
    bins: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))

    def add(self, seconds: float) -> None:
        """Count one work that ended well."""
        self.works += 1
        self.seconds += seconds
        self.bins[bisect_left(SECONDS, seconds)] += 1


@dataclass
class Turn:
    """A job for one stream or query, taken again and again.

    ``look`` must be cheap and may raise; ``work`` is killed anywhere and run again by its own guarantees.
    ``pace_s``: at least this long from the start of one work to the next. ``alone``: held while it works.
    """

    job: str
    name: str
    look: Callable[[], Hashable]
    work: Callable[[], Any]
    every_s: float = 2.0
    pace_s: float = 0.0
    alone: Callable[[], AbstractContextManager[object]] = nullcontext
    clock: Clock = time.monotonic
    seen: object = NOTHING_SEEN
    failures: int = 0
    error: str | None = None
    not_before: float = 0.0
    running_since: float | None = None
    tally: Tally = field(default_factory=Tally)

    def take(self) -> bool:
        """Look and, where something is new, work; return whether it worked. Never raises an ``Exception``."""
        if self.clock() < self.not_before:
            return False
        try:
            return self._looked()
        except LeaseHeld as busy:
            # Someone else does just this now, such as a repair beside it: no failure, it is looked again.
            log.debug("%s %s waits: %s", self.job, self.name, busy)
        except Exception as error:
            self._failed(error)
        finally:
            self.running_since = None
        return False

    @property
    def state(self) -> str:
        """What it does now: ``running``, ``failing`` (waits to be tried again) or ``waiting`` (for something new)."""
        if self.running_since is not None:
            return "running"
        return "failing" if self.failures else "waiting"

    def facts(self) -> dict[str, Any]:
        """Return how it stands, as plain values; seconds are from now on, or up to now."""
        now, since = self.clock(), self.running_since
        return {
            "job": self.job,
            "name": self.name,
            "state": self.state,
            "running_s": None if since is None else round(now - since, 1),
            "failures": self.failures,
            "again_in_s": round(max(0.0, self.not_before - now), 1) if self.failures else None,
            "error": self.error,
            "tally": asdict(self.tally),
        }

    def _looked(self) -> bool:
        shown = self.look()
        is_new = shown != self.seen
        if is_new:
            with self.alone():
                # What came while it waited is part of this work.
                shown = self.look()
                self._work()
        self.seen, self.failures, self.error = shown, 0, None
        return is_new

    def _work(self) -> None:
        started = self.clock()
        self.running_since = started
        self.not_before = started + self.pace_s
        self.work()
        self.tally.add(self.clock() - started)

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        self.tally.failures += 1
        self.error = told(error)
        wait = wait_s(self.failures, self.every_s)
        self.not_before = self.clock() + wait
        facts = {"job": self.job, "stream": self.name, "failures": self.failures, "again_in_s": wait}
        log.error("%s %s failed, again in %.0f s: %s", self.job, self.name, wait, self.error, extra=facts)

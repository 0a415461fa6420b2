"""Lanes beside each other, each a thread that takes its turns one after the other, and the beat that shows them.

A lane that fails, or hangs, holds up no other. Lanes that follow others (queries, the publish) wake as soon as one has
worked; the others look every so often. A stop lets the running works end and begins none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse.service.tasks import Turn

log = logging.getLogger(__name__)
BEAT_S = 1.0
# How long a stop waits for running works; what takes longer is cut off, and made again by the next start.
STOPS_WITHIN_S = 30.0


class LaneEnded(RuntimeError):
    """The service cannot go on in this process: whoever supervises it starts it again."""


@dataclass
class Lane:
    """Turns that come one after the other; ``follows`` says that it wakes when another lane has worked."""

    name: str
    turns: Sequence[Turn]
    follows: bool = False
    wake: threading.Event = field(default_factory=threading.Event)


@dataclass
class Service:
    """Lanes and what is done with them until a stop.

    ``beat`` hears the state (``running``, ``stopping``, ``stopped``) every ``BEAT_S``; ``is_alive`` tells whether the
    engine that the works need still runs.
    """

    lanes: Sequence[Lane]
    every_s: float
    beat: Callable[[str], Any]
    is_alive: Callable[[], bool] = lambda: True
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, stops_within_s: float = STOPS_WITHIN_S) -> list[Turn]:
        """Take turns until ``stop`` is set; return those that were still running when the time for it was over.

        Raises:
            LaneEnded: when a lane's thread or the engine has ended.
        """
        threads = [threading.Thread(target=self._loop, args=(lane,), name=lane.name) for lane in self.lanes]
        for thread in threads:
            thread.daemon = True
            thread.start()
        while not self.stop.wait(BEAT_S):
            self.beat("running")
            ended = [thread.name for thread in threads if not thread.is_alive()]
            if ended or not self.is_alive():
                raise LaneEnded(f"{', '.join(ended) or 'the engine'} has ended; start the service again")
        return self._stopped(threads, stops_within_s)

    def _stopped(self, threads: Sequence[threading.Thread], within_s: float) -> list[Turn]:
        end = time.monotonic() + within_s
        while any(thread.is_alive() for thread in threads) and time.monotonic() < end:
            self.beat("stopping")
            for lane in self.lanes:
                lane.wake.set()
            next((thread for thread in threads if thread.is_alive()), threads[0]).join(BEAT_S / 2)
        return [turn for lane in self.lanes for turn in lane.turns if turn.running_since is not None]

    def _loop(self, lane: Lane) -> None:
        while not self.stop.is_set():
            began = time.monotonic()
            for turn in lane.turns:
                if not self.stop.is_set() and turn.take():
                    self._ring()
            lane.wake.wait(max(0.0, began + self.every_s - time.monotonic()))
            lane.wake.clear()

    def _ring(self) -> None:
        for lane in self.lanes:
            if lane.follows:
                lane.wake.set()

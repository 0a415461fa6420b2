"""The workers of a service: threads that each run their tasks one after the other, and the heartbeat that shows them.

A worker that fails or hangs holds up no other. Workers that follow others (queries, the publish) wake as soon as a task
of another has run; the others wake every few seconds. A task that must wait longer, for its pace or after a failure, is
looked at as soon as it may run. A stop lets the running tasks end and starts no other.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse.service.tasks import Task

BEAT_S = 1.0
# How long a stop waits for running tasks; what takes longer is cut off, and run again after the next start.
STOPS_WITHIN_S = 2.0


class WorkerEnded(RuntimeError):
    """Error of a service that cannot continue in this process; its supervisor starts it again."""


@dataclass
class Worker:
    """Tasks that one thread runs in order; one that ``follows`` wakes when a task of another worker has run."""

    name: str
    tasks: Sequence[Task]
    follows: bool = False
    wake: threading.Event = field(default_factory=threading.Event)


@dataclass
class Service:
    """Workers that run until a stop.

    ``heartbeat`` is called with the state (``running``, ``stopping``, ``stopped``) every ``BEAT_S``. ``is_alive`` tells
    whether the engine that the tasks need still runs.
    """

    workers: Sequence[Worker]
    every_s: float
    heartbeat: Callable[[str], Any]
    is_alive: Callable[[], bool] = lambda: True
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, stops_within_s: float = STOPS_WITHIN_S) -> list[Task]:
        """Run tasks until ``stop`` is set; return those that still ran when the time for the stop was over.

        Raises WorkerEnded when a worker's thread or the engine has ended.
        """
        threads = [
            threading.Thread(target=self._loop, args=(worker,), name=worker.name) for worker in self.workers
        ]
        for thread in threads:
            thread.daemon = True
            thread.start()
        while not self.stop.wait(BEAT_S):
            self.heartbeat("running")
            ended = [thread.name for thread in threads if not thread.is_alive()]
            if ended or not self.is_alive():
                raise WorkerEnded(f"{', '.join(ended) or 'the engine'} has ended; start the service again")
        return self._stopped(threads, stops_within_s)

    def _stopped(self, threads: Sequence[threading.Thread], within_s: float) -> list[Task]:
        end = time.monotonic() + within_s
        while any(thread.is_alive() for thread in threads) and time.monotonic() < end:
            self.heartbeat("stopping")
            for worker in self.workers:
                worker.wake.set()
            next((thread for thread in threads if thread.is_alive()), threads[0]).join(BEAT_S / 2)
        return [task for worker in self.workers for task in worker.tasks if task.running_since is not None]

    def _loop(self, worker: Worker) -> None:
        while not self.stop.is_set():
            began = time.monotonic()
            for task in worker.tasks:
                if not self.stop.is_set() and task.run_if_new():
                    self._ring()
            worker.wake.wait(self._pause_s(worker, began))
            worker.wake.clear()

    def _pause_s(self, worker: Worker, began: float) -> float:
        """Return how long until its next look: earlier where a task that was not to run yet may run before."""
        now = time.monotonic()
        waiting = [task.not_before for task in worker.tasks if task.not_before > now]
        return max(0.0, min([began + self.every_s, *waiting]) - now)

    def _ring(self) -> None:
        for worker in self.workers:
            if worker.follows:
                worker.wake.set()

"""The tasks of a service for each stream and query: the jobs that the DAGs call, each with the probe that starts it.

a worker per stream  ingest          if its files or topics show something new
                     build_rollups   if its ledger, or a correction, is new
                     maintain        each ``MAINTAINED_AFTER`` batches; at the start if the last run was interrupted
a second one         merge_raw       likewise; it takes long and delays nothing
a worker per query   run_queries     if a ledger of its streams is new
                     maintain_queries
one worker           publish         if a rollup, or a query's result, is new
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from jobs import build_rollups, ingest, maintain, maintain_queries, merge_raw, publish, run_queries
from jobs.running.outcome import ALL_STREAMS, job_of, recorded
from lakehouse.ingest.sources.listing import arrived_us, probe_of
from lakehouse.service.freshness import Freshness
from lakehouse.service.tasks import Task
from lakehouse.service.workers import Worker
from lakehouse.settings import Settings
from lakehouse.storage.control.lease import LeaseHeld
from lakehouse.storage.control.outcomes import has_run_since
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.newest_commits import NO_TABLE, Commits
from lakehouse.storage.tables.rollup_table import read_marker

# Partial nodes and small files grow with batches: they are folded and merged after this many.
MAINTAINED_AFTER = 50
Work = Callable[[], dict[str, Any]]
log = logging.getLogger(__name__)


class ServiceTasks:
    """The workers of a service, for some streams and the queries over these streams alone."""

    def __init__(
        self,
        settings: Settings,
        spark: SparkSession,
        streams: Sequence[str],
        every_s: float,
        publish_s: float,
    ) -> None:
        self.settings, self.spark, self.streams, self._every_s = settings, spark, streams, every_s
        layout = settings.layout
        self.fresh = {name: Freshness(read_marker(layout.rollup(name)).batch) for name in streams}
        # A publish reads all rollups as of one moment: it waits for tasks that change one, and they for it.
        self._rollups = {name: threading.Lock() for name in settings.streams}
        self.queries = [n for n, q in settings.registered.items() if set(streams).issuperset(q.streams)]
        of_streams = [Worker(name, self._of_stream(name)) for name in streams]
        of_streams += [
            Worker(f"raw of {n}", [self._upkept(merge_raw.run, n, layout.ledger(n))]) for n in streams
        ]
        of_queries = [Worker(f"query {name}", self._of_query(name), follows=True) for name in self.queries]
        self.workers = [*of_streams, *of_queries, Worker("publish", [self._publish(publish_s)], follows=True)]

    def snapshot(self) -> dict[str, Any]:
        """Return the state of each task and the freshness of each stream."""
        tasks = [task.snapshot() for worker in self.workers for task in worker.tasks]
        return {"streams": {name: fresh.snapshot() for name, fresh in self.fresh.items()}, "tasks": tasks}

    def _of_stream(self, name: str) -> list[Task]:
        settings, spark, layout = self.settings, self.spark, self.settings.layout
        probe = probe_of(settings.stream(name).source, layout.manifests(name).folder)
        changes = (layout.ledger(name), layout.corrections(name))
        tasks = [
            self._task("ingest", name, probe, lambda: ingest.run(settings, spark, name)),
            self._after("build_rollups", name, changes, lambda: build_rollups.run(settings, spark, name)),
            self._upkept(maintain.run, name, layout.ledger(name)),
        ]
        for task in tasks[1:]:
            task.alone = lambda: self._rollups[name]
        return tasks

    def _of_query(self, name: str) -> list[Task]:
        settings, spark, layout = self.settings, self.spark, self.settings.layout
        ledgers = {
            p(stream) for stream in settings.query(name).streams for p in (layout.ledger, layout.corrections)
        }
        return [
            self._after("run_queries", name, ledgers, lambda: run_queries.run(settings, spark, name)),
            self._upkept(maintain_queries.run, name, layout.queries(name)),
        ]

    def _upkept(self, run: Callable[..., dict[str, Any]], name: str, counting: Location) -> Task:
        """Return a task that runs each time the ``counting`` table has ``MAINTAINED_AFTER`` more commits."""
        commits, job = Commits(counting), job_of(run)

        def passed() -> int:
            # Counted by the table, not from the start, so that a service that is restarted often leaves out no run.
            return max(commits()[0][0], 0) // MAINTAINED_AFTER

        task = self._task(job, name, passed, partial(run, self.settings, self.spark, name))
        seen = passed()
        if has_run_since(self.settings.layout, job, name, counting, seen * MAINTAINED_AFTER):
            task.seen = seen
        return task

    def _publish(self, pace_s: float) -> Task:
        layout, settings = self.settings.layout, self.settings
        tables = [p(name) for name in settings.streams for p in (layout.rollup, layout.corrections)]
        tables += [p(name) for name in settings.registered for p in (layout.queries, layout.repairs)]
        task = self._after("publish", ALL_STREAMS, tables, self._publish_all)
        task.pace_s, task.alone = pace_s, self._all_rollups
        return task

    @contextmanager
    def _all_rollups(self) -> Iterator[None]:
        with ExitStack() as held:
            for lock in self._rollups.values():
                held.enter_context(lock)
            yield

    def _publish_all(self) -> dict[str, Any]:
        figures, fault = publish.publish_streams(self.settings, unchecked=True)
        rollups = {n: self.settings.layout.rollup(n) for n in self.streams if n not in figures["withheld"]}
        through = {name: read_marker(rollup).batch for name, rollup in rollups.items()}
        layout, now_s = self.settings.layout, time.time()
        for name, batch in through.items():
            stream, fresh = self.settings.stream(name), self.fresh[name]
            arrivals = [arrived_us(layout, stream, n) for n in fresh.unmeasured(batch)]
            fresh.add(batch, [None if us is None else us / 1e6 for us in arrivals], now_s)
        if isinstance(fault, LeaseHeld):
            raise fault
        if fault:
            # A task that fails is tried later and later, and the other streams would wait as long.
            log.error("%s", fault)
        return figures

    def _after(self, job: str, name: str, tables: Collection[Location], work: Work) -> Task:
        """Return a task that runs when one of these tables has changed; it does not run while there is no table."""
        task = self._task(job, name, Commits(*tables), work)
        task.seen = (NO_TABLE,) * len(tables)
        return task

    def _task(self, job: str, name: str, probe: Callable[[], Hashable], work: Work) -> Task:
        return Task(job, name, probe, partial(recorded, job, self.settings, name, work), self._every_s)

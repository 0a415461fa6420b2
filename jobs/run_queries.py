"""Run every registered query on finished ingest batches: results at once, and a log of rows that may have missed some.

Running it again processes nothing twice. If it is killed anywhere, the next run repeats the batch that was begun,
with the same result.
"""

import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from jobs.running.command import run_for
from lakehouse.engine import engine_of
from lakehouse.queries.kind import Query, kind_of
from lakehouse.queries.runtime.batch_manifest import Wanted, waiting_retractions
from lakehouse.queries.runtime.failure import QueryFailed, goes_on, read_failure
from lakehouse.queries.runtime.repair import drain_repairs
from lakehouse.queries.runtime.run import QueryRun, add_all
from lakehouse.queries.runtime.scan.readers import scan_group
from lakehouse.queries.runtime.scan.rounds import Rounds
from lakehouse.queries.runtime.withdrawal import drain_withdrawals
from lakehouse.settings import Settings
from lakehouse.spark import tables
from lakehouse.spark.session import cores_of

# How long a query waits for others that share its scans and are run, repaired or maintained now.
TIMEOUT_S = 600


def run(settings: Settings, spark: SparkSession, query: str) -> dict[str, Any]:
    """Process all finished ingest batches of the query's streams; return batches, rows, and pairs, results or answers.

    A query whose conditions are evaluated one by one takes along all other such queries with common streams, and
    shares its scans with them; they then find their work done. Raises LeaseHeld if another process runs this query
    now, or repairs or maintains it for longer than ``WAIT_S``; QueryChanged if the query means something other than
    what its tables were made for; QueryFailed if the query shares scans, and one of its operators raised an error.
    """
    asked = settings.query(query)
    if asked.row_scans():
        return _run_together(settings, spark, asked)
    with tables.turn(settings.layout, settings.layout.queries(query), "run"):
        one = run_of(settings, spark, query)
        done = one.drain()
        if _is_withdrawn(one):
            add_all(done, one.drain())
        return done


def _run_together(settings: Settings, spark: SparkSession, asked: Query) -> dict[str, Any]:
    """Run a query with all that share scans with it and can run."""
    group, end = scan_group(asked, settings.registered.values()), time.monotonic() + TIMEOUT_S
    with ExitStack() as leases:
        # In the same order everywhere, so that jobs of two queries that share scans cannot wait for each other.
        together = [query.name for query in group if _comes_along(settings, query, asked, leases, end)]
        runs = tuple(run_of(settings, spark, name) for name in together)
        rounds = Rounds(engine_of(spark), settings.layout, runs, policy=settings.queries.policy)
        done = rounds.drain()
        if withdrawn := tuple(filter(_is_withdrawn, runs)):
            for name, more in replace(rounds, runs=withdrawn).drain().items():
                add_all(done[name], more)
    if stopped := read_failure(settings.layout, asked.name):
        raise QueryFailed(f"query {asked.name} is stopped: {stopped}")
    return done[asked.name]


def _is_withdrawn(run: QueryRun[Any]) -> bool:
    """Withdraw what rests on rows that were retracted, so that batches go on; return whether there was anything.

    Nothing is done if another process repairs the query now: it waits for these batches, and then withdraws that too.
    """
    layout, name = run.layout, run.query.name
    if not waiting_retractions(layout, name, run.query.streams):
        return False
    try:
        with tables.lease(layout, layout.repairs(name)):
            drain_withdrawals(run, drain_repairs(run))
    except tables.LeaseHeld:
        return False
    return True


def _comes_along(settings: Settings, query: Query, asked: Query, leases: ExitStack, end: float) -> bool:
    """Take the lease of a query that can run with the given one, until ``end``; return whether that succeeded."""
    # One that is stopped or changed is left to its own job.
    if query != asked and not goes_on(settings.layout, query):
        return False
    try:
        leases.enter_context(
            tables.lease(settings.layout, settings.layout.queries(query.name), end - time.monotonic())
        )
    except tables.LeaseHeld:
        # A long repair of one query delays the others no longer than this.
        if query == asked:
            raise
        return False
    # Its own job may have finished it meanwhile.
    return query == asked or goes_on(settings.layout, query)


def run_of(settings: Settings, spark: SparkSession, query: str) -> QueryRun[Any]:
    """Return a registered query, and where it runs.

    Raises KeyError with the registered names, if there is none of this name.
    """
    asked = settings.query(query)
    wanted = Wanted(settings.queries.buckets, partial(cores_of, settings.spark, spark))
    run: QueryRun[Any] = (
        kind_of(asked)
        .file("run")
        .run_of(engine_of(spark), settings.layout, asked, settings.streams, wanted, settings.sites)
    )
    return run


main = partial(run_for, "query", run)


if __name__ == "__main__":
    raise SystemExit(main())

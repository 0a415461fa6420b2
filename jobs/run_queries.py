"""Take what ingest has finished into every registered query: pairs and answers at once, a log of what may be missing.

Running again takes in nothing twice. Killed anywhere, the next run makes the batch that was begun again, alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from pyspark.sql import SparkSession

from jobs.command import run_for_queries
from lakehouse.catalog.aggregate_query import AggregateQuery
from lakehouse.catalog.join_query import JoinQuery
from lakehouse.catalog.layout import Home
from lakehouse.catalog.multiway_query import MultiwayQuery
from lakehouse.catalog.plans import definition_of, read_definition
from lakehouse.catalog.selection_query import SelectionQuery
from lakehouse.catalog.settings import Settings
from lakehouse.catalog.stopped import QueryStopped, read_stopped
from lakehouse.spark import tables
from lakehouse.spark.join_aggregate.online import Run as AggregateRun
from lakehouse.spark.late_join.online import Run as JoinRun
from lakehouse.spark.multiway_join.online import Run as MultiwayRun
from lakehouse.spark.selection.online import Run as SelectionRun

# How long a selection waits for another of its stream that runs, or is maintained, now.
PATIENCE_S = 600


def run(settings: Settings, spark: SparkSession, query: str) -> dict[str, Any]:
    """Take in all finished ingest batches of the query's streams; return batches, rows, and pairs, results or answers.

    A selection takes all others of its stream along, in one pass: what they did is done when their turn comes.

    Raises:
        LeaseHeld: when another process runs this query now.
        QueryChanged: when the query means something else than what its tables were made for.
        QueryStopped: when the query is a selection and one of its conditions raised.
    """
    asked = settings.query(query)
    if isinstance(asked, SelectionQuery):
        return _select(settings, spark, asked)
    with tables.lease(settings.layout.queries(query)):
        return registered(settings, spark, query).drain()


def _select(settings: Settings, spark: SparkSession, asked: SelectionQuery) -> dict[str, Any]:
    """Run a selection with all others of its stream that have no reason to stand still."""
    layout = settings.layout
    others = [query for query in settings.selections.values() if query.stream == asked.stream]
    with ExitStack() as leases:
        held = [query for query in others if query == asked or _goes_on(layout, query)]
        # In one order for all, so that jobs of two selections of a stream cannot wait for each other.
        for query in held:
            leases.enter_context(tables.lease(layout.queries(query.name), PATIENCE_S))
        together = tuple(query for query in held if query == asked or _goes_on(layout, query))
        done = SelectionRun(spark, layout, together, settings.streams).drain()
    if stopped := read_stopped(layout, asked.name):
        raise QueryStopped(f"query {asked.name} is stopped: {stopped}")
    return done[asked.name]


def _goes_on(layout: Home, query: SelectionQuery) -> bool:
    """Tell if a selection can be run along with another: what is stopped, or changed, is left to its own job."""
    meant = read_definition(layout.plans(query.name))
    return meant in (None, definition_of(query, 1)) and read_stopped(layout, query.name) is None


def registered(settings: Settings, spark: SparkSession, query: str) -> JoinRun | MultiwayRun | AggregateRun:
    """Return a registered query that a repair looks after, and where it runs.

    Raises:
        KeyError: with the registered names, when there is none of this name.
    """
    asked, buckets = settings.query(query), settings.queries.buckets
    if isinstance(asked, AggregateQuery):
        return AggregateRun(spark, settings.layout, asked, settings.streams, buckets)
    if isinstance(asked, MultiwayQuery):
        return MultiwayRun(spark, settings.layout, asked, settings.streams, settings.sites)
    assert isinstance(asked, JoinQuery)
    return JoinRun(spark, settings.layout, asked, settings.streams, buckets)


def main(argv: Sequence[str] | None = None) -> int:
    """Run for the queries named on the command line."""
    return run_for_queries(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())

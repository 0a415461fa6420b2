"""Take what ingest has finished into every registered query: pairs and answers at once, a log of what may be missing.

Running again takes in nothing twice. Killed anywhere, the next run makes the batch that was begun again, alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from jobs.command import run_for_queries
from lakehouse.catalog.aggregate_query import AggregateQuery
from lakehouse.catalog.multiway_query import MultiwayQuery
from lakehouse.catalog.settings import Settings
from lakehouse.spark import tables
from lakehouse.spark.join_aggregate.online import Run as AggregateRun
from lakehouse.spark.late_join.online import Run as JoinRun
from lakehouse.spark.multiway_join.online import Run as MultiwayRun


def run(settings: Settings, spark: SparkSession, query: str) -> dict[str, Any]:
    """Take in all finished ingest batches of the query's streams; return batches, rows, and pairs, results or answers.

    Raises:
        LeaseHeld: when another process runs this query now.
        QueryChanged: when the query means something else than what its tables were made for.
    """
    with tables.lease(settings.layout.queries(query)):
        return registered(settings, spark, query).drain()


def registered(settings: Settings, spark: SparkSession, query: str) -> JoinRun | MultiwayRun | AggregateRun:
    """Return a registered query and where it runs.

    Raises:
        KeyError: with the registered names, when there is none of this name.
    """
    asked, buckets = settings.query(query), settings.queries.buckets
    if isinstance(asked, AggregateQuery):
        return AggregateRun(spark, settings.layout, asked, settings.streams, buckets)
    if isinstance(asked, MultiwayQuery):
        return MultiwayRun(spark, settings.layout, asked, settings.streams, settings.sites)
    return JoinRun(spark, settings.layout, asked, settings.streams, buckets)


def main(argv: Sequence[str] | None = None) -> int:
    """Run for the queries named on the command line."""
    return run_for_queries(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())

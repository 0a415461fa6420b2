"""Take what ingest has finished into every registered query: pairs online, a log of what may be missing.

Running again takes in nothing twice. Killed anywhere, the next run makes the batch that was begun again, alike.
As a service: ``python -m jobs.run_queries --every 10s`` looks for what ingest has finished every ten seconds.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from jobs.command import run_for_queries
from lakehouse.catalog.durations import parse_duration
from lakehouse.catalog.settings import Settings
from lakehouse.spark import tables
from lakehouse.spark.late_join.online import Run


def run(settings: Settings, spark: SparkSession, query: str) -> dict[str, Any]:
    """Take in all finished ingest batches of both streams; return batches, rows and pairs.

    Raises:
        LeaseHeld: when another process runs this query now.
        QueryChanged: when the query means something else than what its tables were made for.
    """
    joined = settings.query(query)
    with tables.lease(settings.layout.queries(query)):
        return Run(spark, settings.layout, joined, settings.streams, settings.queries.buckets).drain()


def main(argv: Sequence[str] | None = None) -> int:
    """Run for the queries named on the command line: once, or with ``--every`` until it is stopped."""
    parser = ArgumentParser(add_help=False)
    parser.add_argument("--every", type=parse_duration)
    asked, rest = parser.parse_known_args(argv)
    while (failed := run_for_queries(run, rest)) == 0 and asked.every:
        time.sleep(asked.every / 1_000_000)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())

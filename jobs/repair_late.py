"""Find the pairs that registered joins have missed, from their logs and raw, each exactly once.

Safe while the queries run on. Running again finds nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from jobs.command import run_for_queries
from lakehouse.catalog.settings import Settings
from lakehouse.spark import tables
from lakehouse.spark.late_join.online import Run
from lakehouse.spark.late_join.repair import repair


def run(settings: Settings, spark: SparkSession, query: str) -> dict[str, Any]:
    """Repair all finished batches of a query; return how many logged rows were looked at and pairs found.

    Raises:
        LeaseHeld: when another process repairs this query now.
    """
    joined = settings.query(query)
    with tables.lease(settings.layout.repairs(query)):
        if not tables.exists(settings.layout.queries(query)):
            return {"repairs": 0, "looked_at": 0, "found": 0, "gone": 0}
        return repair(Run(spark, settings.layout, joined, settings.streams, settings.queries.buckets))


def main(argv: Sequence[str] | None = None) -> int:
    """Run for the queries named on the command line."""
    return run_for_queries(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())

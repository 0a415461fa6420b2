"""Find what registered queries have missed, from their logs and raw: pairs and results of joins, and what answers lack.

Safe while the queries run on: a join is repaired beside it, an aggregate between its batches. Running again finds
nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from jobs.command import run_for_queries
from jobs.run_queries import registered
from lakehouse.declare.settings import Settings
from lakehouse.queries.aggregate import repair as join_aggregate
from lakehouse.queries.multiway import repair as multiway_join
from lakehouse.queries.multiway.run import Run as MultiwayRun
from lakehouse.queries.pairs import repair as late_join
from lakehouse.queries.pairs.run import Run as JoinRun
from lakehouse.spark import tables

# A batch of a query takes seconds, rarely a minute.
PATIENCE_S = 600


def run(settings: Settings, spark: SparkSession, query: str) -> dict[str, Any]:
    """Repair all finished batches of a query; return how many logged rows were looked at and what was found.

    Raises:
        LeaseHeld: when another process repairs this query now, or runs an aggregate for longer than PATIENCE_S.
    """
    layout = settings.layout
    if query in settings.selections:
        # Each row alone decides, whenever it comes: nothing is missed.
        return {"repairs": 0, "looked_at": 0, "found": 0, "gone": 0}
    asked = registered(settings, spark, query)
    with tables.lease(layout.repairs(query)):
        if not tables.exists(layout.queries(query)):
            return {"repairs": 0, "looked_at": 0, "found": 0, "gone": 0}
        if isinstance(asked, JoinRun):
            return late_join.repair(asked)
        if isinstance(asked, MultiwayRun):
            return multiway_join.repair(asked)
        with tables.lease(layout.queries(query), patience_s=PATIENCE_S):
            return join_aggregate.repair(asked)


def main(argv: Sequence[str] | None = None) -> int:
    """Run for the queries named on the command line."""
    return run_for_queries(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())

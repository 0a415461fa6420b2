"""Find what registered queries have missed, from their logs and raw: pairs, results of joins, and parts of answers.

What rests on rows that were retracted since is withdrawn, between batches. Safe while queries run: a join is repaired
beside its batches, an aggregate between them. Running it again finds nothing twice.
"""

from contextlib import nullcontext
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from jobs.run_queries import run_of
from jobs.running.command import run_for
from lakehouse.queries.runtime.batch_manifest import waiting_retractions
from lakehouse.queries.runtime.repair import NOTHING, drain_repairs, is_between_batches
from lakehouse.queries.runtime.withdrawal import drain_withdrawals
from lakehouse.settings import Settings
from lakehouse.spark import tables

# A batch of a query takes seconds, rarely a minute.
TIMEOUT_S = 600


def run(settings: Settings, spark: SparkSession, query: str) -> dict[str, Any]:
    """Repair all finished batches of a query; return how many logged rows were processed, results found and withdrawn.

    Raises LeaseHeld if another process repairs this query now, maintains it for longer than ``WAIT_S``, or runs one
    that must not run meanwhile for longer than TIMEOUT_S.
    """
    layout, asked = settings.layout, settings.query(query)
    with tables.turn(layout, layout.repairs(query), "repair"):
        if not tables.exists(layout.queries(query)):
            return dict(NOTHING)
        withdraws = bool(waiting_retractions(layout, query, asked.streams))
        batches = tables.lease(layout, layout.queries(query), timeout_s=TIMEOUT_S)
        with batches if withdraws or is_between_batches(asked) else nullcontext():
            run = run_of(settings, spark, query)
            totals = drain_repairs(run)
            if withdraws:
                drain_withdrawals(run, totals)
            return totals


main = partial(run_for, "query", run)


if __name__ == "__main__":
    raise SystemExit(main())

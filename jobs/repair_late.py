"""Find what registered queries have missed, from their logs and raw: pairs, results of joins, and parts of answers.

Safe while queries run: a join is repaired beside its batches, an aggregate between them. Running it again finds
nothing twice.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from jobs.run_queries import run_of
from jobs.running.command import run_for
from lakehouse.queries.kind import kind_of
from lakehouse.queries.runtime.repair import NOTHING, drain_repairs
from lakehouse.settings import Settings
from lakehouse.spark import tables

# A batch of a query takes seconds, rarely a minute.
TIMEOUT_S = 600


def run(settings: Settings, spark: SparkSession, query: str) -> dict[str, Any]:
    """Repair all finished batches of a query; return how many logged rows were processed and what was found.

    Raises:
        LeaseHeld: if another process repairs this query now, or runs one that must not run meanwhile for longer than
            TIMEOUT_S.
    """
    layout, kind = settings.layout, kind_of(settings.query(query))
    if not kind.has("repair"):
        return dict(NOTHING)
    repair = kind.file("repair").Repair
    with tables.lease(layout.repairs(query)):
        if not tables.exists(layout.queries(query)):
            return dict(NOTHING)
        batches = tables.lease(layout.queries(query), timeout_s=TIMEOUT_S)
        with batches if repair.between_batches else nullcontext():
            return drain_repairs(run_of(settings, spark, query))


main = partial(run_for, "query", run)


if __name__ == "__main__":
    raise SystemExit(main())

"""Keep the tables of a registered query small: delete states and windows nobody reads, merge small files, vacuum.

Changes no answer. Safe to run at any time, again, and to kill anywhere.
"""

from collections import Counter
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from jobs.running.command import run_for
from lakehouse.engine import engine_of
from lakehouse.queries.kind import kind_of
from lakehouse.queries.runtime.tables import drop_old_states
from lakehouse.settings import Settings
from lakehouse.spark import tables
from lakehouse.storage.tables import table_maintenance


def run(settings: Settings, spark: SparkSession, query: str) -> dict[str, Any]:
    """Maintain a query's tables; return what was merged and deleted, and which files are left.

    Raises LeaseHeld if another process maintains them now, or runs or repairs the query for longer than ``WAIT_S``.
    """
    layout, engine, figures = settings.layout, engine_of(spark), Counter[str]()
    with (
        tables.turn(layout, layout.repairs(query), "maintain"),
        tables.lease(layout, layout.queries(query), tables.WAIT_S),
    ):
        drop_old_states(engine, layout, query)
        asked = settings.query(query)
        if drop_old_rows := kind_of(asked).part("tables", "drop_old_rows", None):
            drop_old_rows(engine, layout, asked)
        for path in filter(tables.exists, layout.tables_of(query)):
            figures.update(table_maintenance.compact_and_vacuum(path, settings.tables.history))
    return dict(figures)


main = partial(run_for, "query", run)


if __name__ == "__main__":
    raise SystemExit(main())

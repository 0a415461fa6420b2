"""Merge small files of a stream's raw rows, while other rows are ingested.

It reads and writes all rows that are new since the last merge, on one core; the rest of maintenance is quick
(``maintain``). Changes no row. Safe to run at any time, again, and to kill anywhere.
"""

from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from jobs.running.command import run_for
from lakehouse.settings import Settings
from lakehouse.spark import tables
from lakehouse.storage.control.lease import files_of
from lakehouse.storage.tables import table_maintenance


def run(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
    """Merge the files of raw if there are many small ones; return how many were merged, and how many files are left.

    Raises LeaseHeld if another process merges them now, or deletes rows for longer than ``WAIT_S``.
    """
    raw = settings.layout.raw(stream)
    if not tables.exists(raw):
        return {"files_merged": 0}
    with tables.turn(settings.layout, files_of(raw), "merge"):
        return {"files_merged": table_maintenance.merge_small_files(raw), **table_maintenance.left(raw)}


main = partial(run_for, "stream", run)


if __name__ == "__main__":
    raise SystemExit(main())

"""Keep the tables of one stream small: fold partial nodes, drop nodes below horizons, merge small files, vacuum.

Changes no answer. Safe to run at any time, again, and to kill anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs.command import run_for_streams
from lakehouse.catalog.settings import Settings
from lakehouse.spark import maintenance, rollup, tables


def run(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
    """Maintain the stream's tables; return rows of the rollup before and after, and files merged.

    Raises:
        LeaseHeld: when another process writes one of these tables now.
    """
    layout = settings.layout
    figures: dict[str, Any] = {"files_merged": 0, "files_deleted": 0}
    written_by_ingest: list[Path] = [layout.raw(stream), layout.quarantine(stream), layout.ledger(stream)]
    with tables.lease(layout.raw(stream)):
        for path in filter(tables.exists, written_by_ingest):
            figures["files_merged"] += maintenance.merge_small_files(spark, path)
            figures["files_deleted"] += maintenance.vacuum(spark, path)
    path = layout.rollup(stream)
    with tables.lease(path):
        if tables.exists(path):
            figures |= rollup.compact(spark, layout, settings.stream(stream))
            figures["files_deleted"] += maintenance.vacuum(spark, path)
    if tables.exists(layout.quality):
        figures["files_merged"] += maintenance.merge_small_files(spark, layout.quality)
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    """Run for the streams named on the command line."""
    return run_for_streams(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())

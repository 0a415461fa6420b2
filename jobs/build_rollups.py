"""Build every rollup level and grouping of one stream from the raw rows ingested since the last time.

One commit per run; running again adds nothing. ``rebuild`` builds everything again from raw, for a stream that is
declared differently now.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from jobs.command import run_for_streams
from lakehouse.catalog.settings import Settings
from lakehouse.spark import rollup, tables


class NothingIngested(RuntimeError):
    """There is nothing to build from."""


def run(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
    """Append the nodes of new ingest batches; return how many batches and rows.

    Raises:
        LeaseHeld: when another process writes this stream's rollups now.
        RollupOutdated: when the stream's levels, groupings or measures have changed since they were built.
    """
    path = settings.layout.rollup(stream)
    with tables.lease(path):
        if not tables.exists(settings.layout.ledger(stream)):
            return {"batches": 0, "rows": 0}
        return rollup.append_new(spark, settings.layout, settings.stream(stream))


def rebuild(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
    """Build the stream's rollups again from raw, by today's declaration.

    The published answers stay as they are until the next publish.

    Raises:
        NothingIngested: when there is no ledger to build from.
        LeaseHeld: when another process writes this stream's rollups now.
    """
    path = settings.layout.rollup(stream)
    if not tables.exists(settings.layout.ledger(stream)):
        raise NothingIngested(f"stream {stream}: nothing has been ingested yet; run `tidemark run`")
    with tables.lease(path):
        shutil.rmtree(path, ignore_errors=True)
        return rollup.append_new(spark, settings.layout, settings.stream(stream))


def main(argv: Sequence[str] | None = None) -> int:
    """Run for the streams named on the command line."""
    return run_for_streams(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())

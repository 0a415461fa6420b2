"""Ingest open quarantined records of one stream again, judged by the present configuration.

They are a batch of their own in the ledger: each record is accepted, a duplicate, or quarantined again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from jobs import ingest
from jobs.command import run_for_streams
from lakehouse.declare.settings import Settings


def run(settings: Settings, spark: SparkSession, stream: str, reasons: Sequence[str] = ()) -> dict[str, Any]:
    """Ingest records of these reasons (all by default) again; return the batch's counts.

    Raises:
        LeaseHeld: if another process ingests this stream now.
    """
    return ingest.requeue(settings, spark, stream, tuple(reasons))


main = partial(run_for_streams, run)


if __name__ == "__main__":
    raise SystemExit(main())

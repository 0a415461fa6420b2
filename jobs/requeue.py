"""Ingest open quarantined records of one stream again, judged by the present configuration.

They are a batch of their own in the ledger: each record is accepted, a duplicate, or quarantined again.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from jobs.running.command import run_for
from lakehouse.corrections.corrections import writing
from lakehouse.ingest.batch_records import StreamTables
from lakehouse.ingest.drain import drain, open_finished
from lakehouse.ingest.sources.manifest import SET_ASIDE
from lakehouse.settings import Settings


def run(settings: Settings, spark: SparkSession, stream: str, reasons: Sequence[str] = ()) -> dict[str, Any]:
    """Ingest records of these reasons (all by default) again; return the batch's counts.

    Files and messages that were set aside are ingested too, by the reason ``set_aside``. Raises LeaseHeld if another
    process writes this stream for longer than ``WAIT_S``.
    """
    target = StreamTables(spark, settings.layout, settings.stream(stream))
    with writing(target):
        store, before = open_finished(target)
        if not reasons or SET_ASIDE in reasons:
            store.add_set_aside(target.stream.source)
        if not reasons or set(reasons) - {SET_ASIDE}:
            store.add_requeue(tuple(reasons))
        return drain(target, store, before)


main = partial(run_for, "stream", run)


if __name__ == "__main__":
    raise SystemExit(main())

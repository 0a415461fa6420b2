"""Remove wrong rows of one stream from raw and every level, with a record of who asked and why.

Exactly once, also when it is killed: the stream's next job finishes a retraction that was begun. The published
version stays until the next publish.
"""

from typing import Any

from pyspark.sql import SparkSession

from lakehouse.corrections import corrections
from lakehouse.corrections.retract import RetractRefused, Wrong, retract
from lakehouse.settings import Settings
from lakehouse.spark import tables


def run(
    settings: Settings,
    spark: SparkSession,
    stream: str,
    wrong: Wrong,
    by: str,
    why: str,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Retract rows; return how many of how many batches, and the number of the correction.

    Raises RetractRefused if nothing was ingested, a batch is not finished, or the rows are not selected properly;
    RawIncomplete if raw rows of the given time are deleted; RollupOutdated if the stream's declaration differs from
    what its rollups were built for; LeaseHeld if another process writes the stream's tables for longer
    than ``WAIT_S``.
    """
    layout, declared = settings.layout, settings.stream(stream)
    if not tables.exists(layout.ledger(stream)):
        raise RetractRefused(f"stream {stream}: nothing has been ingested yet; run `tidemark run`")
    raw, built = layout.raw(stream), layout.rollup(stream)
    with tables.lease(layout, raw, tables.WAIT_S), tables.lease(layout, built, tables.WAIT_S):
        corrections.finish_open(spark, layout, declared)
        return retract(spark, layout, declared, wrong, by, why, dry_run)

"""Check every rule on the tables of a stream; a failed one stops what comes after.

Reads ledger, raw, quarantine and rollup; writes <home>/quality and the pages under <home>/reports. Running it again
checks again and changes no table of the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakehouse.declare.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
    """Judge the stream's tables and return how many rules were checked, through which batch, and the report.

    Raises:
        GateFailed: when a rule does not hold; the verdicts are in the history all the same.
    """
    from lakehouse.streams.checks import measure, open_tables
    from lakehouse.streams.rollup_checks import measure_rollup
    from quality.history import verified_through
    from quality.verdicts import record_verdicts

    layout = settings.layout
    since = verified_through(spark, layout.quality, stream)
    tables = open_tables(spark, layout, settings.stream(stream), since)
    if tables is None:
        return {"checks": 0, "failed": 0}
    frames = [*measure(tables), *measure_rollup(spark, layout, tables)]
    return record_verdicts(settings, spark, stream, frames, tables.through)


def main(argv: Sequence[str] | None = None) -> int:
    """Check the streams named on the command line."""
    from jobs.command import run_for_streams

    return run_for_streams(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())

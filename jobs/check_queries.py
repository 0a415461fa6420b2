"""Check every rule on the tables of a registered query and its repair; a failed rule is reported and stops nothing.

Reads the query's tables and raw; writes <home>/quality and the pages under <home>/reports. Running it again checks
again and changes no table of the query.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from jobs.running.command import run_for
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(settings: Settings, spark: SparkSession, query: str) -> dict[str, Any]:
    """Check a registered query's tables, best after a repair; return what ``check_quality`` does, and ``gone`` rows.

    If none of its tables and of its streams' has changed since a check passed, nothing is checked again. Raises
    GateFailed if a rule fails, such as too many periods below the recall asked for.
    """
    from quality.verdicts import subject_of, unless_passed

    layout, declared = settings.layout, settings.query(query)
    of_streams = [table(name) for name in declared.streams for table in (layout.raw, layout.corrections)]
    return unless_passed(
        settings,
        subject_of(query),
        [*layout.tables_of(query), *of_streams],
        f"{declared.definition()} {settings.queries.published}",
        lambda: _checked(settings, spark, query),
    )


def _checked(settings: Settings, spark: SparkSession, query: str) -> dict[str, Any]:
    from lakehouse.engine import engine_of
    from lakehouse.queries.runtime.checks import frames_of, measure_scans, rows_to_take
    from lakehouse.queries.runtime.recall.tables import open_tables
    from quality.history import verified_through
    from quality.verdicts import record_verdicts, subject_of

    since = verified_through(settings.layout.quality, subject_of(query))
    declared, published_us = settings.query(query), settings.queries.published
    tables = open_tables(engine_of(spark), settings.layout, declared, since, published_us)
    if tables is None:
        return {"checks": 0, "failed": 0}
    frames = frames_of(tables, rows_to_take(tables, since))
    frames += measure_scans(tables, since)
    try:
        figures = record_verdicts(settings, query, frames, tables.through, "query")
    finally:
        # In the history now, whatever the verdict is: what is past fails one run only.
        misses = tables.report_misses()
    return {**figures, **misses, "gone": tables.gone}


main = partial(run_for, "query", run)


if __name__ == "__main__":
    raise SystemExit(main())

"""Check every rule on what a registered query and its repair have written; a failed one is told and stops nothing.

Reads the query's tables and raw; writes <home>/quality and the pages under <home>/reports. Running it again checks
again and changes no table of the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakehouse.declare.settings import Settings
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.selection.query import SelectionQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.queries.runtime.checks import QueryTables
    from lakehouse.spark.deviations import Frame


def run(settings: Settings, spark: SparkSession, query: str) -> dict[str, Any]:
    """Judge a registered query's tables, best after a repair; return what ``check_quality`` does, and ``gone`` rows.

    Raises:
        GateFailed: when a rule does not hold, such as too many periods below the recall asked for.
    """
    from lakehouse.queries.runtime.scan.checks import measure_scans
    from quality.history import verified_through
    from quality.verdicts import settle, subject_of

    since = verified_through(spark, settings.layout.quality, subject_of(query))
    measured = _measured(settings, spark, query, since)
    if measured is None:
        return {"checks": 0, "failed": 0}
    tables, frames = measured
    frames = [*frames, *measure_scans(spark, tables, since)]
    return {**settle(settings, spark, query, frames, tables.through, "query"), "gone": tables.gone}


def _measured(
    settings: Settings, spark: SparkSession, name: str, since: int
) -> tuple[QueryTables, list[Frame]] | None:
    """Return a query's tables and their frames of deviations by its kind, None where no batch is finished."""
    from lakehouse.queries.aggregate.checks import measure_aggregated, open_aggregated
    from lakehouse.queries.multiway.checks import measure_moved, open_moved
    from lakehouse.queries.pairs.checks import measure_joined, open_joined
    from lakehouse.queries.runtime.checks import rows_to_take
    from lakehouse.queries.selection.checks import measure_selected, open_selected

    query = settings.query(name)
    if isinstance(query, AggregateQuery):
        answered = open_aggregated(settings.layout, query, since)
        if answered is None:
            return None
        return answered, measure_aggregated(answered, rows_to_take(spark, answered, since))
    if isinstance(query, MultiwayQuery):
        moved = open_moved(settings.layout, query)
        return None if moved is None else (moved, measure_moved(moved, rows_to_take(spark, moved, since)))
    if isinstance(query, SelectionQuery):
        chosen = open_selected(settings.layout, query)
        if chosen is None:
            return None
        return chosen, measure_selected(chosen, rows_to_take(spark, chosen, since))
    assert isinstance(query, PairsQuery)
    joined = open_joined(settings.layout, query, settings.queries.published)
    return None if joined is None else (joined, measure_joined(joined, rows_to_take(spark, joined, since)))


def main(argv: Sequence[str] | None = None) -> int:
    """Check the queries named on the command line."""
    from jobs.command import run_for_queries

    return run_for_queries(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())

"""A batch of a selection: the rows that its scan let through, then what was measured of its operators.

    scan                -> selected      of the query its rows
                        -> queries N     operators, as they were measured; written last: the batch is finished

Selections are run in rounds (``lakehouse.queries.runtime.scan.rounds``), with all that reads their streams row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.declare.stream import Stream
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.queries.runtime.batch import Through, next_batch
from lakehouse.queries.runtime.batch_manifest import Plan, definition_of, require_same
from lakehouse.queries.runtime.scan.task import ROW
from lakehouse.queries.selection.query import SelectionQuery
from lakehouse.queries.selection.tables import create_tables
from lakehouse.spark import tables

if TYPE_CHECKING:
    from lakehouse.queries.runtime.scan.shared import Shared

COUNTS = ("rows", "selected", "misses")


@dataclass(frozen=True)
class Run:
    """A registered selection, and where it runs."""

    spark: SparkSession
    layout: Home
    query: SelectionQuery
    streams: Mapping[str, Stream]
    counts = COUNTS

    def begin(self) -> None:
        """Create the tables that are not there.

        Raises:
            QueryChanged: when the query means something else than its tables.
        """
        require_same(self.layout.plans(self.query.name), self.query.name, definition_of(self.query, 1))
        create_tables(self.spark, self.layout, self.query, self.streams)

    def next(self, most_rows: int, through: Through | None = None) -> Plan | None:
        """Return the batch that was begun, or write down the next one; None when all is taken."""
        return next_batch(self.layout, self.query, most_rows, through)

    def finish(self, plan: Plan, intake: Shared) -> dict[str, Any]:
        """Append what the query selects, then the figures that finish its batch; return these."""
        query, figures = self.query, intake.scanned[0].figures[0]
        shown = [F.col(output.column).alias(output.name) for output in query.outputs]
        number = F.lit(plan.number).cast("bigint").alias("batch")
        if figures["selected"]:
            rows = intake.rows(0).select("event_us", F.col(ROW).alias("row_id"), number, *shown)
            tables.append_once(rows, self.layout.selected(query.name), f"query-{query.name}", plan.number)
        crash_point("queries.outputs-appended")
        intake.note(figures["rows"], figures["selected"])
        crash_point("queries.finished")
        return {name: figures[name] for name in COUNTS}

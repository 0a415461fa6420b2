"""A batch of a selection: the rows that its scan let through, then what was measured of its operators.

    scan                -> selected      of the query its rows
                        -> queries N     operators, as they were measured; written last: the batch is finished

Selections are run in rounds (``lakehouse.queries.runtime.scan.rounds``), with all that reads their streams row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakehouse.home.crashpoint import crash_point
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.bucket_answers import fit_here
from lakehouse.queries.runtime.run import QueryRun
from lakehouse.queries.runtime.scan.task import ROW
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.selection.query import SelectionQuery


@dataclass(frozen=True)
class SelectionRun(QueryRun[SelectionQuery]):
    """A registered selection, and where it runs."""

    counts = ("rows", "selected", "misses")

    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, Any]:
        """Append what the query selects, then the metrics that finish its batch; return its totals."""
        query, metrics = self.query, source.measured(0)
        if metrics["selected"]:
            shown = [f"`{output.column}` AS `{output.name}`" for output in query.outputs]
            columns = ("event_us", f"`{ROW}` AS row_id", *shown)
            is_small = fit_here(metrics["selected"])
            rows = source.select_here(0, columns) if is_small else source.select(0, columns)
            self.append(rows, self.layout.selection(query.name), "online", manifest.number)
        crash_point("queries.outputs-appended")
        source.record_metrics(metrics["rows"], metrics["selected"])
        crash_point("queries.finished")
        return {name: metrics[name] for name in self.counts}


run_of = SelectionRun.of

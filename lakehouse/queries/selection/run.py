"""A batch of a selection: the rows that its scan let through, then what was measured of its operators.

    scan                -> selected      its rows, which the tasks of the scan have written
                        -> queries N     operators, as they were measured; written last: the batch is finished

Selections are run in rounds (``lakehouse.queries.runtime.scan.rounds``), with all that reads their streams row by row.
"""

from dataclasses import dataclass
from typing import Any

from lakehouse.engine.parts import sink_of
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.run import QueryRun
from lakehouse.queries.runtime.scan.task import ROW
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tables import Written
from lakehouse.queries.selection.query import SelectionQuery
from lakehouse.spark.noted_rows import PLACE
from lakehouse.storage.crashpoint import crash_point


@dataclass(frozen=True)
class SelectionRun(QueryRun[SelectionQuery]):
    """A registered selection, and where it runs."""

    counts = ("rows", "selected", "misses")

    def selected(self, manifest: BatchManifest) -> Written:
        """Return how tasks write the rows that the scan of a batch lets through."""
        shown = {output.name: output.column for output in self.query.outputs}
        sink = sink_of(self.layout.selection(self.query.name))
        own = {"event_us": "event_us", "row_id": ROW, **dict(zip(PLACE, PLACE, strict=True))}
        return Written(sink, own | shown, {"batch": manifest.number})

    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, Any]:
        """Commit what the scan has written, then the metrics that finish its batch; return its totals."""
        metrics = source.measured(0)
        self.commit(source.entries(0), self.layout.selection(self.query.name), "online", manifest.number)
        crash_point("queries.outputs-appended")
        source.record_metrics(metrics["rows"], metrics["selected"])
        crash_point("queries.finished")
        return {name: metrics[name] for name in self.counts}


run_of = SelectionRun.of

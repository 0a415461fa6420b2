"""The tables of a registered selection -> frames of deviations per batch.

Cost: one pass over one column of the selected rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.queries.runtime.batch_metrics import read_figures
from lakehouse.queries.runtime.checks import QueryTables, Taken, counted, query_frames, scanned
from lakehouse.spark.deviations import Frame

if TYPE_CHECKING:
    from lakehouse.home.layout import Home
    from lakehouse.queries.selection.query import SelectionQuery


@dataclass(frozen=True)
class Chosen(QueryTables):
    """The tables of a selection."""

    query: SelectionQuery

    @property
    def piece(self) -> str:
        """What a batch has figures of: operators."""
        return "operator"


def open_selected(layout: Home, query: SelectionQuery) -> Chosen | None:
    """Return what a query's tables hold, None where no batch is finished."""
    figures = read_figures(layout, query.name, ("batch", "operator", "rows", "selected"))
    if not figures.finished:
        return None
    # All that is there was found online: nothing repairs a selection, and nothing is logged.
    rows = (_online(batch) for batch in scanned(layout.selected(query.name), ("batch",)))
    found = counted(rows, ("found", "batch"))
    return Chosen(layout, query, figures, found, counted(iter(()), ("what", "batch")), ("selected",))


def measure_selected(chosen: Chosen, taken: Taken) -> list[Frame]:
    """Return the frames of the batches in ``taken`` (least and most rows of each)."""
    return [frame for frame in query_frames(chosen, taken) if frame.rows]


def _online(batch: pa.RecordBatch) -> pa.RecordBatch:
    found = pa.repeat(pa.scalar("online"), batch.num_rows)
    return pa.RecordBatch.from_arrays([found, batch.column("batch")], names=["found", "batch"])

"""The tables of a selection, for checks per batch.

Cost: one pass over one column of the selected rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.queries.runtime.checks import QueryTables, scanned

if TYPE_CHECKING:
    from lakehouse.home.layout import Home
    from lakehouse.queries.selection.query import SelectionQuery


@dataclass(frozen=True)
class SelectionTables(QueryTables):
    """The tables of a selection."""

    partition_column = "operator"
    columns = ("rows", "selected")
    found_columns = ("selected",)


def open_tables(
    layout: Home, query: SelectionQuery, since: int, published_us: int | None
) -> SelectionTables | None:
    """Return what a query's tables hold, None where no batch is finished."""
    # All that is there was found online: nothing repairs a selection, and nothing is logged.
    rows = (_online(batch) for batch in scanned(layout.selection(query.name), ("batch",)))
    return SelectionTables.opened(layout, query, rows)


def _online(batch: pa.RecordBatch) -> pa.RecordBatch:
    found = pa.repeat(pa.scalar("online"), batch.num_rows)
    return pa.RecordBatch.from_arrays([found, batch.column("batch")], names=["found", "batch"])

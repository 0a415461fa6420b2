"""Published tables of a selection: its rows, and its row in ``queries``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.config.stream import Stream
from lakehouse.queries.runtime.batch_metrics import Facts
from lakehouse.queries.runtime.snapshot import (
    KindsMetrics,
    RowsSnapshot,
    shared_fields,
    shown_columns,
)
from lakehouse.queries.selection.query import SelectionQuery
from lakehouse.storage.layout import Home

if TYPE_CHECKING:
    import duckdb

    from lakehouse.serving.segments.row_store import RowStore

_METRICS = KindsMetrics({"rows_found": "selected"}, ["time_us"])


@dataclass(frozen=True, kw_only=True)
class SelectionSnapshot(RowsSnapshot):
    """A selection as it is to be published."""

    statements = ("selection",)
    rows_are = "The rows selected by"

    @staticmethod
    def finished(batches: int, repairs: int) -> str:
        """Return SQL that tells if a row is of a finished batch; nothing repairs it."""
        return f"batch <= {batches}"

    def write(self, connection: duckdb.DuckDBPyConnection, store: RowStore) -> None:
        """Write the row of the query."""
        own = {"rows_found": self.rows_found, "final_before_us": self.passed_us}
        own["published"] = store.shown(self.rows_table)
        self.write_row(connection, own, {"open": "FROM range(0)"})


def snapshot_of(
    layout: Home,
    query: SelectionQuery,
    streams: Mapping[str, Stream],
    published_us: int | None,
    before: Facts | None = None,
) -> SelectionSnapshot:
    """Return what is published of a query; ``published_us`` back from its newest time, None for all.

    ``before``: its row in the version before.
    """
    fields = shared_fields(layout, query, streams, _METRICS, before, published_us)
    return SelectionSnapshot(
        **fields,
        columns=shown_columns(query, query.outputs, streams, [f"the row of {query.stream}"]),
        row_table=layout.selection(query.name),
    )

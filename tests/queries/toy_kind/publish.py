"""Publication of a sample: its rows, and its row in ``queries``."""

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
from lakehouse.storage.layout import Home
from tests.queries.toy_kind.query import SampleQuery

if TYPE_CHECKING:
    import duckdb

    from lakehouse.serving.segments.row_store import RowStore


@dataclass(frozen=True, kw_only=True)
class SampleSnapshot(RowsSnapshot):
    """A sample as it is to be published."""

    statements = ("selection",)
    rows_are = "The rows sampled by"

    @staticmethod
    def finished(batches: int, repairs: int) -> str:
        """Return SQL that tells if a row is of a finished batch; nothing repairs it."""
        return f"batch <= {batches}"

    def write(self, connection: duckdb.DuckDBPyConnection, store: RowStore) -> None:
        """Write the row of the query."""
        own = {"rows_found": self.rows_found, "final_before_us": self.passed_us}
        own["published"] = store.shown(self.rows_table)
        self.write_row(connection, own, {})


def snapshot_of(
    layout: Home,
    query: SampleQuery,
    streams: Mapping[str, Stream],
    published_us: int | None,
    before: Facts | None = None,
) -> SampleSnapshot:
    """Return what a publisher is told of a query."""
    metrics = KindsMetrics({"rows_found": "selected"}, ["time_us"])
    shared = shared_fields(layout, query, streams, metrics, before, published_us)
    return SampleSnapshot(
        **shared,
        columns=shown_columns(query, query.outputs, streams, ["the row"]),
        row_table=layout.selection(query.name),
    )

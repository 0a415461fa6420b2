"""What is published of a sample: its rows, and its row in ``queries``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.runtime.batch_metrics import read_batch_metrics
from lakehouse.queries.runtime.snapshot import (
    RowsSnapshot,
    files_of,
    shared_fields,
    shown_columns,
)
from tests.queries.toy_kind.query import SampleQuery

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, kw_only=True)
class SampleSnapshot(RowsSnapshot):
    """A sample as it is to be published."""

    statements = ("selection",)
    rows_are = "The rows sampled by"

    @property
    def finished(self) -> str:
        """SQL that tells if a row is of a finished batch."""
        return f"batch <= {self.batches}"

    def write(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Write everything of the query."""
        self.write_rows(connection)
        own = {"rows_found": self.rows_found, "final_before_us": self.passed_us}
        self.write_row(connection, own, {"published": f"FROM {self.table}"})


def snapshot_of(
    layout: Home, query: SampleQuery, streams: Mapping[str, Stream], published_us: int | None
) -> SampleSnapshot:
    """Return what a publisher is told of a query."""
    metrics = read_batch_metrics(layout, query.name, ("batch", "operator", "rows", "selected", "time_us"))
    shared = shared_fields(
        layout, query, streams, metrics, [row["time_us"] for row in metrics.rows], published_us
    )
    return SampleSnapshot(
        **shared,
        columns=shown_columns(query, query.outputs, streams, ["the row"]),
        rows_found=metrics.total("selected"),
        row_files=files_of(layout.selection(query.name)),
    )

"""Published tables of a join of three streams or more: its results, and its row in ``queries``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.config.stream import Stream
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.runtime.batch_metrics import Facts
from lakehouse.queries.runtime.snapshot import (
    KindsMetrics,
    RowsSnapshot,
    final_before,
    open_rows,
    shared_fields,
    shown_columns,
)
from lakehouse.storage.layout import Home

if TYPE_CHECKING:
    import duckdb

    from lakehouse.serving.segments.row_store import RowStore

_METRICS = KindsMetrics({"rows_found": "results"}, ["newest_us"])


@dataclass(frozen=True, kw_only=True)
class MultiwaySnapshot(RowsSnapshot):
    """A join of three streams or more as it is to be published."""

    statements = ("multiway",)
    rows_are = "The results of"
    slack_us: int

    def write(self, connection: duckdb.DuckDBPyConnection, store: RowStore) -> None:
        """Write the row of the query."""
        waiting = open_rows(self)
        own = {
            "rows_found": self.rows_found,
            "slack_us": self.slack_us,
            "published": store.shown(self.rows_table),
            "final_before_us": final_before(connection, self.passed_us, waiting),
        }
        self.write_row(connection, own, {"open": f"FROM ({waiting})"})


def snapshot_of(
    layout: Home,
    query: MultiwayQuery,
    streams: Mapping[str, Stream],
    published_us: int | None,
    before: Facts | None = None,
) -> MultiwaySnapshot:
    """Return what is published of a query; ``published_us`` back from its newest time, None for all.

    ``before``: its row in the version before.
    """
    fields = shared_fields(layout, query, streams, _METRICS, before, published_us)
    rows = [f"the row of {side.alias}, of {side.stream}" for side in query.sides]
    return MultiwaySnapshot(
        **fields,
        slack_us=query.slack_us,
        columns=shown_columns(query, query.outputs, streams, rows),
        row_table=layout.multiway(query.name),
    )

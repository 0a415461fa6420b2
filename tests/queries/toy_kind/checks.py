"""The tables of a sample, for checks per batch."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakehouse.home.layout import Home
from lakehouse.queries.runtime.checks import QueryTables, scanned
from tests.queries.toy_kind.query import SampleQuery


@dataclass(frozen=True)
class SampleTables(QueryTables):
    """The tables of a sample."""

    partition_column = "operator"
    columns = ("rows", "selected")
    found_columns = ("selected",)


def open_tables(
    layout: Home, query: SampleQuery, since: int, published_us: int | None
) -> SampleTables | None:
    """Return what a query's tables hold, None where no batch is finished."""
    batches = (batch.column("batch") for batch in scanned(layout.selection(query.name), ("batch",)))
    rows = (
        pa.RecordBatch.from_arrays(
            [pa.repeat(pa.scalar("online"), len(each)), each], names=["found", "batch"]
        )
        for each in batches
    )
    return SampleTables.opened(layout, query, rows)

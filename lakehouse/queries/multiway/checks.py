"""The tables of a join of three streams or more, for checks per batch and per repair.

Cost: one pass over two columns of the results and over the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.queries.runtime.checks import COUNTS, QueryTables, scanned

if TYPE_CHECKING:
    from lakehouse.home.layout import Home
    from lakehouse.queries.multiway.query import MultiwayQuery


@dataclass(frozen=True)
class MultiwayTables(QueryTables):
    """The tables of a join of three streams or more."""

    partition_column = "side"
    columns = (*COUNTS, "results")
    found_columns = ("results",)


def open_tables(
    layout: Home, query: MultiwayQuery, since: int, published_us: int | None
) -> MultiwayTables | None:
    """Return what a query's tables hold, None where no batch is finished."""
    return MultiwayTables.opened(layout, query, scanned(layout.multiway(query.name), ("found", "batch")))

"""The tables of a registered join of three streams or more -> frames of deviations per batch and per repair.

Cost: one pass over two columns of the results and over the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.queries.runtime.batch_metrics import read_figures
from lakehouse.queries.runtime.checks import COUNTS, QueryTables, Taken, counted, query_frames, scanned
from lakehouse.spark.deviations import Frame

if TYPE_CHECKING:
    from lakehouse.home.layout import Home
    from lakehouse.queries.multiway.query import MultiwayQuery


@dataclass(frozen=True)
class Moved(QueryTables):
    """The tables of a join of three streams or more."""

    query: MultiwayQuery

    @property
    def piece(self) -> str:
        """What a batch has figures of: sides."""
        return "side"


def open_moved(layout: Home, query: MultiwayQuery) -> Moved | None:
    """Return what a query's tables hold, None where no batch is finished."""
    figures = read_figures(layout, query.name, ("batch", "side", *COUNTS, "results"))
    if not figures.finished:
        return None
    found = counted(scanned(layout.joins(query.name), ("found", "batch")), ("found", "batch"))
    log = counted(scanned(layout.late(query.name), ("what", "batch")), ("what", "batch"))
    return Moved(layout, query, figures, found, log, ("results",))


def measure_moved(moved: Moved, taken: Taken) -> list[Frame]:
    """Return the frames of the batches in ``taken`` (least and most rows of each), and of repairs."""
    return [frame for frame in query_frames(moved, taken) if frame.rows]

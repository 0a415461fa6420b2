"""Tables of a join of three streams or more, and the deletion of rows that have left their windows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Stream
from lakehouse.engine import Engine
from lakehouse.engine.rewriting import remove_rows
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.reach import farthest
from lakehouse.queries.runtime.batch_manifest import finished
from lakehouse.queries.runtime.tables import (
    NewTable,
    as_columns,
    column_type,
    output_types,
    row_tables,
)
from lakehouse.spark import tables
from lakehouse.storage.layout import Home

_LEAST = -(2**62)


def own_tables(layout: Home, query: MultiwayQuery, streams: Mapping[str, Stream]) -> Sequence[NewTable]:
    """Return the tables of its results and windows."""
    first = query.sides[0]
    keys = {str(place): column_type(streams, first, key) for place, key in enumerate(first.keys)}
    kept = as_columns(keys, "k_") + as_columns(output_types(query, streams), "o_")
    windows = NewTable(layout.windows(query.name), "windows", {"columns": kept})
    return [*row_tables(layout, query, streams), windows]


def drop_old_rows(engine: Engine, layout: Home, query: MultiwayQuery) -> None:
    """Delete the rows that no later batch meets: those beyond their windows once the last batch was finished.

    Cost: one Spark job, none where no file can have such a row.
    """
    done, table = finished(layout, query.name), layout.windows(query.name)
    last = farthest(layout, query, done)
    if last is None or last.time_us is None or not tables.exists(table):
        return
    gone = Beyond(done, tuple(since_us or _LEAST for since_us in last.since_us()))
    between = ("event_us", _LEAST, max(gone.before_us) - 1)
    remove_rows(
        engine, layout, table, gone, between, f"windows of {query.name}, batch {done}: remove old rows"
    )


@dataclass(frozen=True)
class Beyond:
    """The rows of batches up to ``done`` that are older than their windows; ``before_us``: by side, until when."""

    done: int
    before_us: tuple[int, ...]
    columns: ClassVar[tuple[str, ...]] = ("batch", "side", "event_us")

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return for each row whether it is one of them."""
        before_us = pa.array(self.before_us, pa.int64()).take(rows["side"])
        return pc.and_(pc.less_equal(rows["batch"], self.done), pc.less(rows["event_us"], before_us))

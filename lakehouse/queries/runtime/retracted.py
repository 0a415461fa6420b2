"""Retracted rows as tasks look for them: in results, in what a state holds, and in the log of a query.

A correction notes the hashes of its rows before they leave raw; a result has the hashes of the rows that it is made of.
A file that is read again after its rows were retracted brings rows of the same hashes: results rest on none of them
before those that rest on the old ones are withdrawn, as no batch begins in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.late_join.contract import Int64s
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import file_items
from lakehouse.queries.kind import Query
from lakehouse.storage.corrections import Correction
from lakehouse.storage.layout import Home
from lakehouse.storage.noted_rows import NotedRows
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import Between, files_between
from lakehouse.storage.tables.table_reads import named_columns, pieces_of

Bools = np.ndarray
_COUNTED = pa.schema({"found": pa.string(), "batch": pa.int64(), "rows": pa.int64()})


@dataclass(frozen=True)
class Retracted:
    """The rows of one retraction, on the sides of a query that read their stream; times in ``[from_us, to_us)``."""

    noted: NotedRows
    sides: frozenset[int]
    from_us: int
    to_us: int

    @classmethod
    def of(cls, layout: Home, query: Query, stream: str, correction: Correction) -> Retracted:
        """Return the rows of a retraction of a stream."""
        sides = frozenset(side for side, name in enumerate(query.streams) if name == stream)
        assert correction.from_us is not None and correction.to_us is not None
        noted = NotedRows.of(layout, stream, correction.number)
        return cls(noted, sides, correction.from_us, correction.to_us)

    def are(self, event_us: Int64s, row: Int64s) -> Bools:
        """Return which rows of such a side, by their times and hashes, are retracted."""
        near = (event_us >= self.from_us) & (event_us < self.to_us)
        if near.any():
            near[near] = self.noted.are(row[near])
        return near

    def among(self, rows: pa.Table) -> Bools:
        """Return which of some rows with ``side``, ``event_us`` and ``row`` are retracted."""
        found = self.are(rows["event_us"].to_numpy(), rows["row"].to_numpy())
        found &= np.isin(rows["side"].to_numpy(), list(self.sides))
        return found

    def before(self, time_us: int) -> int:
        """Return how many of them are before a time."""
        return sum(
            int(pc.sum(pc.less(rows["event_us"], time_us)).as_py() or 0) for rows in self.noted.pieces()
        )


@dataclass(frozen=True)
class Resting:
    """Results that rest on retracted rows.

    ``places``: columns with the times and hashes of the rows that a result is made of, by side; one pair of lists has
    those of all sides.
    """

    retracted: Retracted
    places: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> Sequence[str]:
        """The columns that it looks at."""
        return [name for pair in self.places for name in pair]

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return for each result whether it is one of them."""
        found = np.zeros(rows.num_rows, np.bool_)
        for side in self.retracted.sides:
            found |= self.retracted.are(*(self._of_side(rows, side, at) for at in (0, 1)))
        return pa.array(found)

    def _of_side(self, rows: pa.Table, side: int, at: int) -> Int64s:
        column = rows[self.places[min(side, len(self.places) - 1)][at]]
        own: Int64s = (pc.list_element(column, side) if pa.types.is_list(column.type) else column).to_numpy()
        return own


@dataclass(frozen=True)
class RetractedRows:
    """Kept rows, with their side, that are retracted."""

    retracted: Retracted
    columns: tuple[str, ...] = ("side", "event_us", "row")

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return for each row whether it is one of them."""
        return pa.array(self.retracted.among(rows))


def count_resting(
    engine: Engine, table: Location, resting: Resting, between: Between, step: str
) -> dict[str, int]:
    """Return how many results rest on retracted rows, by what has found them, as ``online 3``. Cost: one Spark job."""
    columns = named_columns(table)
    names = {"found", "batch", *resting.columns} & {*columns.names}
    kernel = partial(_resting, resting=resting, columns=named_columns(table, names))
    found = engine.map(file_items(files_between(table, between)), kernel, _COUNTED, step)
    counts = Counter[str]()
    for row in found.to_pylist():
        counts[f"{row['found']} {row['batch']}"] += row["rows"]
    return dict(counts)


def _resting(item: Item, *, resting: Resting, columns: pa.Schema) -> Iterator[pa.Table]:
    for rows in pieces_of(item["path"], columns):
        own = rows.filter(resting(rows))
        # Where nothing is repaired, all was found online.
        if "found" not in own.column_names:
            own = own.append_column("found", pa.repeat("online", own.num_rows))
        counts = own.group_by(["found", "batch"]).aggregate([([], "count_all")])
        yield counts.rename_columns(_COUNTED.names).cast(_COUNTED)

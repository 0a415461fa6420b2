"""Retracted rows as tasks look for them: in results, in what a state holds, and in the log of a query.

A correction notes the places of its rows before they leave raw; a result has the places of the rows that it is made of.
A file that is read again after its rows were retracted brings rows of the same places: results rest on none of them
before those that rest on the old ones are withdrawn, as no batch begins in between.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.late_join.contract import Int64s
from lakehouse.queries.kind import Query, RestsOn
from lakehouse.queries.runtime.tasks.bucket import ATTEMPTS, packed_rows, unpacked
from lakehouse.spark.noted_rows import PLACE, NotedRows
from lakehouse.storage.corrections import Correction
from lakehouse.storage.layout import Home

Bools = np.ndarray


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

    def are(self, event_us: Int64s, places: pa.Table) -> Bools:
        """Return which rows of such a side, by their times and places, are retracted."""
        near = (event_us >= self.from_us) & (event_us < self.to_us)
        if near.any():
            near[near] = self.noted.are(places.filter(pa.array(near)))
        return near

    def among(self, rows: pa.Table) -> Bools:
        """Return which of some rows with ``side``, ``event_us`` and their places are retracted."""
        found = self.are(rows["event_us"].to_numpy(), rows.select(PLACE))
        found &= np.isin(rows["side"].to_numpy(), list(self.sides))
        return found

    def before(self, time_us: int) -> int:
        """Return how many of them are before a time."""
        return int((self.noted.times() < time_us).sum())


@dataclass(frozen=True)
class Resting:
    """Results that rest on retracted rows.

    ``rests_on``: columns with the times and places of the rows that a result is made of, by side; lists have those of
    all sides.
    """

    retracted: Retracted
    rests_on: RestsOn

    @property
    def columns(self) -> Sequence[str]:
        """The columns that it looks at."""
        return [name for own in self.rests_on for name in own]

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return for each result whether it is one of them."""
        found = np.zeros(rows.num_rows, np.bool_)
        for side in self.retracted.sides:
            time, *place = (rows[name] for name in self.rests_on[min(side, len(self.rests_on) - 1)])
            if pa.types.is_list(time.type):
                time, *place = (pc.list_element(each, side) for each in (time, *place))
            found |= self.retracted.are(time.to_numpy(), pa.table(place, PLACE))
        return pa.array(found)


@dataclass(frozen=True)
class RetractedRows:
    """Kept rows, with their side, that are retracted."""

    retracted: Retracted
    columns: tuple[str, ...] = ("side", "event_us", *PLACE)

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return for each row whether it is one of them."""
        return pa.array(self.retracted.among(rows))


@dataclass(frozen=True)
class Forgetting:
    """Segments of some ``parts`` that hold retracted rows, and the attempts of the last batch, which get a new name.

    By that name a process that has a copy of a bucket sees that it is of another state, and reads all segments.
    """

    retracted: Retracted
    parts: frozenset[str]
    batch: int
    name: str
    columns: ClassVar[tuple[str, ...]] = ("batch", "part", "leave_us", "content")

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return for each row of a state whether it is one of them."""
        is_attempts = pc.and_(pc.equal(rows["part"], ATTEMPTS), pc.equal(rows["batch"], self.batch))
        is_own = pc.is_in(rows["part"], pa.array(sorted(self.parts)))
        is_near = pc.fill_null(pc.greater_equal(rows["leave_us"], self.retracted.from_us), False)
        is_segment = pc.and_(pc.and_(is_own, is_near), pc.is_valid(rows["content"]))
        segments = zip(is_segment.to_pylist(), rows["content"], strict=True)
        holds = [
            is_one and len(self._left(each.as_py())) < len(unpacked(each.as_py()))
            for is_one, each in segments
        ]
        return pc.or_(is_attempts, pa.array(holds, pa.bool_()))

    def instead(self, rows: pa.Table) -> pa.Table:
        """Return the rows that take the place of those: attempts of one name, and segments with the other rows."""
        contents = list[bytes | None]()
        for row in rows.select(["part", "content"]).to_pylist():
            if row["part"] == ATTEMPTS:
                contents.append(json.dumps({self.batch: self.name}).encode())
                continue
            left = self._left(row["content"])
            contents.append(packed_rows(left) if len(left) else None)
        place = rows.column_names.index("content")
        changed = rows.set_column(place, "content", pa.array(contents, pa.binary()))
        return changed.filter(pc.is_valid(changed["content"]))

    def _left(self, content: bytes) -> pa.Table:
        rows = unpacked(content)
        are = self.retracted.are(rows["event_us"].to_numpy(), rows.select(PLACE))
        return rows.filter(pa.array(~are))

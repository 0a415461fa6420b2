"""Retracted rows taken out of the segments of buckets, where segments are tables with ``event_us`` and ``row``."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.queries.runtime.retracted import Retracted
from lakehouse.queries.runtime.tasks.bucket import ATTEMPTS, packed_rows, unpacked


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
        are = self.retracted.are(rows["event_us"].to_numpy(), rows["row"].to_numpy())
        return rows.filter(pa.array(~are))

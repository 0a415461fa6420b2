"""A query's buckets and their states in memory, batch by batch, each cut into as many buckets as it is asked to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.queries.aggregate.value_codes import plain
from lakehouse.queries.runtime.batch_manifest import Scales, Wanted, changes_at, next_scales
from lakehouse.queries.runtime.logged import in_new_buckets
from lakehouse.queries.runtime.tasks import bucket as bucket_state
from lakehouse.queries.runtime.tasks.bucket import STATE, BucketResult, Segment, StateBefore

_NONE = pa.schema(
    [("bucket", pa.int32()), ("part", pa.string()), ("content", pa.binary()), ("leave_us", pa.int64())]
).empty_table()


def rows_of_buckets(results: Mapping[int, BucketResult], name: str) -> pa.Table:
    """Return the rows that buckets have for a table, with the number of the bucket of each."""
    numbers = {
        bucket: pa.array([bucket] * len(each.rows[name]), pa.int32()) for bucket, each in results.items()
    }
    tables = [
        plain(each.rows[name]).append_column("bucket", numbers[bucket]) for bucket, each in results.items()
    ]
    return pa.concat_tables(tables, promote_options="permissive")


@dataclass
class Rescaled:
    """The table ``states`` of a query; ``place`` cuts rows into buckets, ``make`` makes what a task does with one."""

    place: Callable[[pa.Table, int], pa.Table]
    make: Callable[..., Any]
    scales: Scales = ()
    states: list[pa.Table] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    drawn: int = 0

    def run(
        self, rows: pa.Table, buckets: int, is_lost: bool = False, **known: Any
    ) -> dict[int, BucketResult]:
        """Take rows in as the next batch; return its results by bucket.

        ``is_lost``: it is not appended; the process lives.
        """
        number, placed = len(self.states) + 1, self.place(rows, buckets)
        scales = next_scales(self.scales, number, Wanted(buckets))
        self.drawn += 1
        before = StateBefore("rescaled", number, str(self.drawn), self._read, scales)
        others = self._counters()
        if changes_at(scales, number):
            others = others.append_column("parent", others["bucket"])
            others = in_new_buckets(others, scales[-2].buckets, buckets)
        work, results = self.make(before, **known), dict[int, BucketResult]()
        for bucket in np.union1d(placed["bucket"].to_numpy(), others["bucket"].to_numpy()):
            own = (
                each.filter(pc.equal(each["bucket"], bucket)).combine_chunks() for each in (placed, others)
            )
            results[int(bucket)] = work(int(bucket), *own)
        if not is_lost:
            self.scales = scales
            self.cut.append(buckets)
            states = rows_of_buckets(results, STATE) if results else _NONE
            self.states.append(states.select(_NONE.column_names))
        return results

    @property
    def common(self) -> int:
        """Return the common divisor of the numbers of buckets of the last two batches."""
        return gcd(*self.cut[-2:])

    @staticmethod
    def end_process() -> None:
        """Lose what the process has in memory."""
        bucket_state._KEPT.clear()

    def _counters(self) -> pa.Table:
        last = self.states[-1] if self.states else _NONE
        return last.filter(pc.or_(pc.is_null(last["leave_us"]), pc.is_null(last["content"])))

    def _read(self, bucket: int, after: int, alive_from: Mapping[str, int]) -> list[Segment]:
        rows = [row for batch in self.states[after:] for row in batch.to_pylist() if row["bucket"] == bucket]
        return [
            Segment(row["part"], row["leave_us"], row["content"])
            for row in rows
            if None not in (row["leave_us"], row["content"]) and row["leave_us"] >= alive_from[row["part"]]
        ]

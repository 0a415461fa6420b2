"""The log of a query as a repair reads it: what the driver must know of it, and its rows in tasks.

driver   Logged       how many rows, where in time, in which buckets: from the metrics of the batches that logged them
task     LoggedRows   rows of the log in the buckets of the last batch
TakenRows    raw rows around them, with the batch of the query that read each
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.late_join.contract import Int64s
from lakehouse.algorithms.late_join.ranges import covering_ranges
from lakehouse.queries.runtime.batch_manifest import BatchManifest, Scale, Scales
from lakehouse.queries.runtime.tasks import arrow_sql
from lakehouse.queries.runtime.tasks.reading import TaskRows
from lakehouse.storage.tables.table_log import Ranges

# So many ranges of time contain those of all logged rows.
MOST_RANGES = 4096
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Logged:
    """Rows that batches have logged since the last repair, as figures.

    ``ranges``: times that contain those of all partners. ``buckets``: those that have such rows, with the batch.
    ``horizon_us``: by batch, the latest up to which its rows were late.
    """

    rows: int
    ranges: Ranges
    buckets: frozenset[tuple[int, int]]
    horizon_us: Mapping[int, int]

    @classmethod
    def of(cls, metrics: Sequence[Mapping[str, Any]], reach_us: int, to_horizon: bool) -> Logged:
        """Return the figures of what some batches logged, from their metrics.

        Partners are so much around logged rows; with ``to_horizon`` none is after the horizon, as the batch that read
        a row counted those.
        """
        kept = [row for row in metrics if row["missed_us"]]
        ranges, horizon_us = [np.zeros((2, 0), np.int64)], dict[int, int]()
        for row in kept:
            first, last = np.array(row["missed_us"], np.int64).reshape(-1, 2).T
            first, last = first - reach_us, last + reach_us
            if row["horizon_us"] is not None:
                horizon_us[row["batch"]] = max(horizon_us.get(row["batch"], _NEVER), row["horizon_us"])
                last = np.maximum(first, np.minimum(last, row["horizon_us"])) if to_horizon else last
            ranges.append(np.array([first, last]))
        first, last = np.concatenate(ranges, axis=1)
        return cls(
            sum(row["missed"] or 0 for row in metrics),
            covering_ranges(first, last, MOST_RANGES),
            frozenset((row["batch"], row["bucket"]) for row in kept),
            horizon_us,
        )


def horizons_of(taken: Int64s, horizon_us: Mapping[int, int | None]) -> Int64s:
    """Return a time of the batch that took each row in, such as up to when rows were late; the least for none."""
    known = sorted(horizon_us.items())
    batches = np.array([-1, *(batch for batch, _ in known)])
    horizons = np.array([_NEVER, *(_NEVER if time is None else time for _, time in known)])
    at = np.searchsorted(batches, taken, "right") - 1
    found: Int64s = np.where(batches[at] == taken, horizons[at], _NEVER)
    return found


@dataclass(frozen=True)
class LoggedRows:
    """Logged rows of some buckets in the last batch; those of an older scale are in each possible one."""

    rows: TaskRows
    scales: Scales
    columns: tuple[str, ...]
    buckets: frozenset[int]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return pa.schema([self.rows.schema.field(name) for name in self.columns])

    def batches(self, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        for batch in self.rows.batches(paths):
            rows = pa.Table.from_batches([batch])
            for scale, ends in scales_with_ends(self.scales):
                number = rows["batch"]
                own = rows.filter(pc.and_(pc.greater_equal(number, scale.since), pc.less(number, ends)))
                now = in_new_buckets(own, scale.buckets, self.scales[-1].buckets)
                wanted = pa.array(sorted(self.buckets), pa.int32())
                kept = now.filter(pc.is_in(now["bucket"], wanted))
                yield arrow_sql.one_batch(kept.select(list(self.columns)))


def scales_with_ends(scales: Scales) -> Iterator[tuple[Scale, int]]:
    """Yield each scale with the batch at which the next one begins."""
    ends = [*(each.since for each in scales[1:]), np.iinfo(np.int64).max]
    yield from zip(scales, map(int, ends), strict=True)


def in_new_buckets(rows: pa.Table, old: int, new: int) -> pa.Table:
    """Return the rows of old buckets for each new bucket that has rows of theirs."""
    common = gcd(old, new)
    steps = np.arange(0, new, common)
    repeated = rows.take(pa.array(np.repeat(np.arange(len(rows)), len(steps))))
    bucket = (rows["bucket"].to_numpy()[:, None] % common + steps).ravel().astype(np.int32)
    return repeated.set_column(rows.schema.get_field_index("bucket"), "bucket", pa.array(bucket))


def buckets_now(buckets: Iterable[tuple[int, int]], scales: Scales) -> frozenset[int]:
    """Return the buckets in the last batch of logged rows, of which the batch and its bucket are given."""
    found = set[int]()
    for batch, bucket in buckets:
        old = next(scale.buckets for scale, ends in scales_with_ends(scales) if batch < ends)
        common = gcd(old, scales[-1].buckets)
        found.update(range(bucket % common, scales[-1].buckets, common))
    return frozenset(found)


@dataclass(frozen=True)
class TakenRows:
    """Raw rows of some buckets, None for all, with the batch of the query that read each, ``taken``.

    ``ends``: the last ingest batch of each batch of the query, the one ``before`` the first comes first; it counts for
    all rows that earlier ones read.
    """

    rows: TaskRows
    ends: tuple[int, ...]
    before: int
    buckets: frozenset[int] | None

    @classmethod
    def of(
        cls,
        rows: TaskRows,
        side: int,
        manifests: Sequence[BatchManifest],
        buckets: Iterable[int] | None = None,
    ) -> TakenRows:
        """Return the rows of a side."""
        ends = (manifests[0].spans[side][0], *(each.spans[side][1] for each in manifests))
        wanted = None if buckets is None else frozenset(buckets)
        return cls(rows, ends, manifests[0].number - 1, wanted)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.rows.schema.append(pa.field("taken", pa.int64()))

    def batches(self, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        wanted = None if self.buckets is None else np.array(sorted(self.buckets))
        for own in self.rows.batches(paths):
            if wanted is not None:
                own = own.filter(pa.array(np.isin(own.column("bucket").to_numpy(), wanted)))
            # The first batch that reached as far as the row's ingest batch.
            number = np.searchsorted(self.ends, own.column("batch").to_numpy(), "left") + self.before
            columns = [*own.columns, pa.array(number.astype(np.int64))]
            yield pa.record_batch(columns, self.schema.names)

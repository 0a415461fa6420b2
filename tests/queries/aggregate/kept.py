"""A query of aggregates kept current in memory, from its text to its answers: batches, restarts, late rows, repair,
and rows that are retracted."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.algorithms.join_aggregate.arrivals import NO_TICK
from lakehouse.algorithms.join_aggregate.contract import Partials, Rows
from lakehouse.queries.aggregate.answers import NEW, Adding, with_earlier
from lakehouse.queries.aggregate.bucket import PART, HeldAggregate, part_rows
from lakehouse.queries.aggregate.query import AggregateQuery, shape_of
from lakehouse.queries.aggregate.recompute import Affected, BucketsAgain
from lakehouse.queries.aggregate.repair import BucketRepairs
from lakehouse.queries.aggregate.rows import is_used, side_rows
from lakehouse.queries.aggregate.value_codes import BucketCodes, newest
from lakehouse.queries.runtime.retracted import Retracted
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tasks.bucket import ATTEMPTS, STATE, Left, Segment
from lakehouse.spark.noted_rows import NotedRows
from tests.oracles.queries.exact_aggregates import plain
from tests.queries.exact_rows import STREAMS, ReadOnce, Row, Source, raw, read


@dataclass
class Kept:
    """A query kept current over buckets in memory, each batch by a process of its own where ``restarts``.

    ``known``: all rows of each side that will come, if they are to be read at once.
    """

    query: AggregateQuery
    buckets: int
    restarts: bool = False
    known: Sequence[Sequence[Row]] | None = None

    def __post_init__(self) -> None:
        self.shape = shape_of(self.query)
        self.rows = ReadOnce(self._read, self.known)
        self.adding = Adding.of(self.query, self.shape, STREAMS)
        self.held = [HeldAggregate(self.query, self.shape) for _ in range(self.buckets)]
        self.left = [Left({}, ()) for _ in range(self.buckets)]
        self.seen: list[list[pa.Table]] = [[] for _ in range(self.buckets)]
        self.horizons: dict[int, int] = {}
        self.until_us: int | None = None
        # With a recall, what all streams had passed before each batch.
        self.came_us: dict[int, int | None] = {}
        groups = [each.name for each in self.query.groups]
        self.names = ["tick_us", *groups]
        none = self.adding(self._parts([]))
        self.answers = none.append_column("part_bucket", pa.array([], pa.int64()))

    def batch(self, rows: Sequence[Sequence[Row]], until_us: int | None) -> None:
        """Take rows of each side in and answer the ticks up to a time."""
        came_us = None if self.query.recall is None else self.until_us
        self.came_us[len(self.came_us)] = came_us
        both, parts, self.until_us = self.rows.of(rows), [], until_us
        for bucket in range(self.buckets):
            own = both.filter(pa.array(both["bucket"].to_numpy() == bucket)).combine_chunks()
            used = own.filter(pa.array(is_used(own)))
            number = len(self.seen[bucket])
            taken = pa.repeat(pa.scalar(number, pa.int64()), used.num_rows)
            self.seen[bucket].append(used.append_column("taken", taken))
            if self.restarts and self.left[bucket].counters:
                self.held[bucket] = HeldAggregate(self.query, self.shape)
                self.held[bucket].catch_up(self.left[bucket].counters, self.left[bucket].segments)
            held = self.held[bucket]
            outcome, change = held.process(used, until_us, came_us)
            kept: list[Segment] = [
                each for each in self.left[bucket].segments if each.leave_us >= change.alive_from[each.part]
            ]
            self.left[bucket] = Left(change.counters, (*kept, *change.segments))
            if len(outcome.log):
                self.horizons[number] = int(outcome.log.horizon_us[0])
            for partials in (outcome.answered, outcome.revised):
                parts.append(self._of(partials, held.codes, bucket))
        self._add(self._parts(parts))

    def _read(self, rows: Sequence[Sequence[Row]]) -> pa.Table:
        """Return rows of each side as tasks read them."""
        wheres = tuple(side.where for side in self.query.sides)
        source = cast(RowSource, Source(tuple(map(raw, rows)), wheres))
        return read(side_rows(source, self.query, STREAMS, self.buckets))

    def repair(self) -> None:
        """Add what logged rows lack."""
        repair = BucketRepairs(self.query, self.shape, self.horizons, 0, self.came_us)
        parts = []
        for bucket in range(self.buckets):
            result = repair(bucket, pa.concat_tables(self.seen[bucket]))
            if result is not None:
                found = result.rows[PART]
                parts.append(found.append_column("part_bucket", pa.repeat(bucket, found.num_rows)))
        self.horizons = {}
        self._add(self._parts(parts))

    def withdraw(self, rows: Sequence[Sequence[Row]]) -> None:
        """Take rows of each side away again; all that were logged are repaired."""
        gone = self.rows.of(rows)
        if not gone.num_rows:
            return
        last = max(held.online.last_us for held in self.held)
        affected = _affected(self.query, gone, None if last == NO_TICK else last)
        parts, every_us = [], self.query.every_us
        for bucket in range(self.buckets):
            self.seen[bucket] = [_without(each, gone) for each in self.seen[bucket]]
            state = None
            for piece in affected.pieces(2, every_us):
                own = self.query, self.shape, piece, self.until_us, 1, "again", self.came_us
                found = BucketsAgain(*own)(bucket, pa.concat_tables(self.seen[bucket]))
                if found is not None:
                    part = found.rows[PART]
                    parts.append(part.append_column("part_bucket", pa.repeat(bucket, part.num_rows)))
                    state = found.rows.get(STATE)
            if affected.alive_us is not None:
                self._restart(bucket, last, state)
        place = self.answers.schema.get_field_index("revision")
        wide = self.answers.set_column(place, "revision", self.answers["revision"].cast(pa.int64()))
        tick = wide["tick_us"].to_numpy()
        again = np.zeros(wide.num_rows, np.bool_)
        for first_us, last_us in affected.ranges:
            again |= (tick >= first_us) & (tick <= last_us)
        at = wide.filter(pa.array(again))
        found = self.adding.instead(self._parts(parts), newest(at, self.names, "revision"), self.names)
        self._keep(found)

    def _restart(self, bucket: int, last_us: int, state: pa.Table | None) -> None:
        """Let a bucket go on from the rows of a state."""
        held = self.held[bucket] = HeldAggregate(self.query, self.shape)
        self.left[bucket] = Left({}, ())
        if state is None or not state.num_rows:
            held.online.process(Rows.none(self.shape), last_us)
            return
        rows = [row for row in state.to_pylist() if row["content"] is not None]
        counters = {row["part"]: row["content"] for row in rows if row["leave_us"] is None}
        segments = [
            Segment(row["part"], row["leave_us"], row["content"])
            for row in rows
            if row["leave_us"] is not None
        ]
        self.left[bucket] = Left({name: counters[name] for name in counters if name != ATTEMPTS}, segments)
        held.catch_up(self.left[bucket].counters, segments)

    def shown(self) -> dict[tuple[int, Any], tuple[list[Any], bool]]:
        """Return the newest answers by tick and group: one value where there is one column of groups."""
        newest: dict[tuple[int, Any], Row] = {}
        for row in self.answers.to_pylist():
            group = tuple(row[name] for name in self.names[1:])
            group = tuple(map(plain, group))
            at = row["tick_us"], group[0] if len(group) == 1 else group
            if at not in newest or newest[at]["revision"] < row["revision"]:
                newest[at] = row
        names = [each.name for each in self.query.measures if each.is_shown]
        return {at: ([row[name] for name in names], row["holds"]) for at, row in newest.items()}

    def _of(self, partials: Partials, codes: BucketCodes, bucket: int) -> pa.Table:
        rows = part_rows(self.query, partials, codes)
        return rows.append_column("part_bucket", pa.repeat(bucket, rows.num_rows))

    def _parts(self, parts: list[pa.Table]) -> pa.Table:
        fields = {name: pa.int64() for name in ("revision", "part_bucket")}
        kinds = {each.name: each.type for each in self.adding.schema} | fields
        names = [*self.adding.read, *(name for name in self.names if name != "tick_us")]
        columns = {
            name: pa.chunked_array(
                [each for part in parts if part.num_rows for each in _column(part, name, kinds[name])],
                kinds[name],
            )
            for name in names
        }
        return pa.table(columns)

    def _add(self, new: pa.Table) -> None:
        if not new.num_rows:
            return
        earlier = self.answers.select(new.column_names).cast(new.schema)
        self._keep(self.adding(with_earlier(new, earlier, self.names)))

    def _keep(self, found: pa.Table) -> None:
        found = found.append_column("part_bucket", pa.repeat(-1, found.num_rows).cast(pa.int64()))
        self.answers = pa.concat_tables([self.answers, found.select(self.answers.column_names)])


def _column(part: pa.Table, name: str, kind: pa.DataType) -> list[pa.Array]:
    """Return a column of parts as that of answers, which have more."""
    if name == "revision":
        return [pa.repeat(NEW, part.num_rows).cast(kind)]
    own = name if name in part.column_names else f"g_{name}"
    if own not in part.column_names:
        return [pa.nulls(part.num_rows, kind)]
    return [each.cast(kind) for each in part[own].chunks]


def _affected(query: AggregateQuery, gone: pa.Table, last_us: int | None) -> Affected:
    """Return what rests on some rows, noted in a file as a correction notes them."""
    event, sides = gone["event_us"].to_numpy(), frozenset(gone["side"].to_pylist())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "noted.parquet")
        one = pa.repeat(pa.scalar(1, pa.int64()), gone.num_rows)
        pq.write_table(gone.select(["event_us", "row"]).append_column("correction", one), path)
        noted = NotedRows((str(path),), 1)
        retracted = Retracted(noted, sides, int(event.min()), int(event.max()) + 1)
        return Affected.of(query, retracted, last_us, None)


def _without(rows: pa.Table, gone: pa.Table) -> pa.Table:
    names = {*zip(gone["side"].to_pylist(), gone["row"].to_pylist(), strict=True)}
    own = zip(rows["side"].to_pylist(), rows["row"].to_pylist(), strict=True)
    return rows.filter(pa.array([each not in names for each in own], pa.bool_()))

"""What a bucket of a join-aggregate holds: the continuous query, and what its groups stand for. No JVM.

rows      side, enter_us, leave_us, k_0 ..., group, v_0 ..., row, weight    as the query holds them
groups    side, group, g_<name> ...                                         of the rows that entered with a batch
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import Rows, Shape
from lakehouse.algorithms.join_aggregate.online import Online, Outcome
from lakehouse.queries.aggregate.group_names import GroupNames
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.rows import buckets_of
from lakehouse.queries.runtime.bucket import Change, Left, Segment, cut_by_time, packed_rows, unpacked

_METHOD, _LAST = "method", "last"
_ROWS, _GROUPS = "rows", "groups"
_PLAIN = ("side", "enter_us", "leave_us", "group", "row", "weight")


class HeldAggregate:
    """A continuous query with its groups."""

    def __init__(self, query: AggregateQuery, shape: Shape) -> None:
        self.online = Online(shape, query.method, query.every_us, query.slack_us)
        self.groups = GroupNames()
        self._query, self._window_us = query, max(side.window_us for side in query.sides)
        self._unwritten: list[tuple[Rows, pa.Table]] = []

    def process(self, rows: Rows, names: pa.Table, until_us: int | None) -> tuple[Outcome, Change]:
        """Take rows in, with what their groups stand for; return what became of them, and what it changes on disk."""
        self.groups.add(names)
        outcome = self.online.process(rows, until_us)
        new = [*self._unwritten, (outcome.entered, names)]
        self._unwritten = []
        segments = [segment for entered, own in new for segment in self._segments(entered, own)]
        alive_from = self.online.alive_from_us
        counters = {_METHOD: self.online.name.encode(), _LAST: str(self.online.last_us).encode()}
        return outcome, Change(counters, segments, {_ROWS: alive_from, _GROUPS: alive_from})

    def prune(self) -> None:
        """Forget groups of which no row is held any more, now and then."""
        if self.groups.is_due:
            held = self.online.rows()
            self.groups.prune(held.side, held.group)

    def catch_up(self, counters: Mapping[str, bytes], segments: Sequence[Segment]) -> None:
        """Become the state of a later batch.

        Raises:
            ValueError: the state is of another method or shape.
        """
        last, rows, names = self._read(Left(counters, segments))
        for each in names:
            self.groups.add(each)
        self.online.catch_up(last, rows)

    def take_over(self, parents: Sequence[Left], bucket: int, buckets: int) -> None:
        """Become the state of a new bucket: the rows of old ones whose keys are in it, and what their groups stand for.

        Raises:
            ValueError: a state is of another method or shape.
        """
        lasts, parts, names = zip(*map(self._read, parents), strict=True)
        rows = Rows.joined(parts)
        rows = rows[buckets_of(self._query, rows.keys, buckets) == bucket]
        for each in chain(*names):
            self.groups.add(each)
        self.groups.prune(rows.side, rows.group)
        self.online.catch_up(max(lasts), rows)
        self._unwritten = [(rows[rows.leave_us >= self.online.alive_from_us], self.groups.all())]

    def _read(self, left: Left) -> tuple[int, Rows, list[pa.Table]]:
        """Return the last tick, rows, and what groups stand for."""
        counters = left.counters
        if (method := counters[_METHOD].decode()) != self.online.name:
            raise ValueError(f"expected the state of {self.online.name}, found that of {method}")
        names = [unpacked(each.content) for each in left.segments if each.part == _GROUPS]
        entered = [self._rows(each) for each in left.segments if each.part == _ROWS]
        return int(counters[_LAST]), Rows.joined([Rows.none(self.online.held_as), *entered]), names

    def _segments(self, rows: Rows, names: pa.Table) -> Iterator[Segment]:
        for at in cut_by_time(rows.leave_us, self._window_us):
            yield Segment(_ROWS, int(rows.leave_us[at].max()), packed_rows(_table(rows[at])))
        if len(rows) and names.column_names != ["side", "group"]:
            yield Segment(_GROUPS, int(rows.leave_us.max()), packed_rows(names))

    def _rows(self, segment: Segment) -> Rows:
        table, shape = unpacked(segment.content), self.online.held_as
        columns = {name: table[name].to_numpy() for name in table.column_names}
        own: dict[str, Any] = {name: columns[name] for name in _PLAIN}
        for field, letter, width in (("keys", "k", shape.width), ("values", "v", shape.columns)):
            own[field] = np.zeros((table.num_rows, width), np.int64 if letter == "k" else np.float64)
            for number in range(width):
                own[field][:, number] = columns[f"{letter}_{number}"]
        return Rows(**own)


def _table(rows: Rows) -> pa.Table:
    columns = {name: getattr(rows, name) for name in _PLAIN}
    for name, wide in (("k", rows.keys), ("v", rows.values)):
        columns |= {f"{name}_{number}": np.ascontiguousarray(column) for number, column in enumerate(wide.T)}
    return pa.table({name: pa.array(column) for name, column in columns.items()})

"""One bucket of one batch of a join-aggregate: its state and new rows in; parts of answers, log and state out. No JVM.

Everything comes back as rows of one table, ``kind`` says of what: a task of Spark returns one table. What is held is
the continuous query, and what its groups stand for:

    rows      side, enter_us, leave_us, k_0 ..., group, v_0 ..., row, weight    as the query holds them
    groups    side, group, g_<name> ...                                         of the rows that entered with a batch
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import Partials, Rows, Shape
from lakehouse.algorithms.join_aggregate.online import Online, Outcome
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.rows import as_rows, buckets_of, is_used
from lakehouse.queries.aggregate.tables import PARTS
from lakehouse.queries.runtime.tasks.bucket import (
    Change,
    Left,
    Segment,
    StateBefore,
    cut_by_time,
    gathered,
    log_rows,
    metrics_row,
    of_kind,
    packed_rows,
    unpacked,
)

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Int64s

PART = "part"
_METHOD, _LAST = "method", "last"
_ROWS, _GROUPS = "rows", "groups"
_PLAIN = ("side", "enter_us", "leave_us", "group", "row", "weight")
_ID = [("side", np.int64), ("group", np.int64)]


@dataclass(frozen=True)
class BucketAggregate:
    """Inputs of a task: the query, its columns, the state, and the times between which ticks are to be answered."""

    query: AggregateQuery
    shape: Shape
    schema: pa.Schema
    before: StateBefore
    answered_us: int | None
    until_us: int | None

    def __call__(self, key: tuple[pa.Scalar, ...], rows: pa.Table, state: pa.Table) -> pa.Table:
        """Take one bucket's rows in; the bucket's number is the key of the group."""
        bucket = key[0].as_py()
        before = self.before.of(bucket, state, partial(HeldAggregate, self.query, self.shape))
        held = before.held
        if not state.num_rows and self.answered_us is not None:
            # Ticks have passed while the bucket had no row: it answered them with nothing.
            held.online.process(as_rows(_no_rows(self.query), self.query), self.answered_us)
        used = rows.filter(pa.array(is_used(rows)))
        outcome, change = held.process(as_rows(used, self.query), groups_of(used), self.until_us)
        parts = [
            part_rows(self.query, outcome.answered, held.groups),
            part_rows(self.query, outcome.revised, held.groups),
            self._log(outcome, rows),
            self.before.keep(bucket, before, change),
            self._metrics(held, outcome, rows, before.bytes),
        ]
        held.prune()
        return gathered(parts, self.schema, bucket)

    def _log(self, outcome: Outcome, rows: pa.Table) -> pa.Table:
        log, refused = outcome.log, rows.filter(rows["is_refused"])
        row = pa.array(np.concatenate([log.row, refused["row"].to_numpy()]))
        return log_rows(log, refused, row, ("horizon_us",))

    def _metrics(self, held: HeldAggregate, outcome: Outcome, rows: pa.Table, size: int) -> pa.Table:
        metrics = {
            "rows": rows.num_rows,
            "late": outcome.late,
            "missed": len(outcome.log),
            "refused": np.count_nonzero(rows["is_refused"].to_numpy()),
            "unusable": np.count_nonzero(rows["is_unusable"].to_numpy()),
            "held": held.online.held,
            "bytes": size,
        }
        return metrics_with_ticks(metrics, outcome.answered, outcome.revised)


def metrics_with_ticks(metrics: Mapping[str, int], new: Partials, revised: Partials) -> pa.Table:
    """Return one row with a bucket's metrics, and which ticks it has parts of."""
    first, last = revised.tick_us[:1].tolist(), revised.tick_us[-1:].tolist()
    ticks = {
        "first_us": min([*new.tick_us[:1].tolist(), *first], default=None),
        "first_revised_us": first[0] if first else None,
        "last_revised_us": last[0] if last else None,
    }
    return metrics_row({name: int(value) for name, value in metrics.items()} | ticks)


def part_rows(query: AggregateQuery, partials: Partials, groups: GroupNames) -> pa.Table:
    """Return parts as rows; ``groups`` says what each (side, group) stands for."""
    columns: dict[str, Any] = {"tick_us": pa.array(partials.tick_us), "results": pa.array(partials.results)}
    for group in query.groups:
        name = f"g_{group.name}"
        columns[name] = groups.column(name, group.side, partials.group[:, group.side])
    return of_kind(PART, columns | aggregate_columns(partials), len(partials))


def aggregate_columns(partials: Partials) -> dict[str, pa.Array]:
    """Return the parts of each aggregate as columns; no extreme is null."""
    return {
        f"{part}_{number}": pa.array(getattr(partials, part)[:, number], from_pandas=part == "extreme")
        for number in range(partials.counted.shape[1])
        for part in PARTS
    }


def groups_of(rows: pa.Table) -> pa.Table:
    """Return each (side, group) of some rows once, with what it stands for."""
    own = rows.select(["side", "group", *(name for name in rows.column_names if name.startswith("g_"))])
    order = own.take(pa.array(np.lexsort((own["group"].to_numpy(), own["side"].to_numpy()))))
    side, group = order["side"].to_numpy(), order["group"].to_numpy()
    is_first = np.ones(len(side), np.bool_)
    is_first[1:] = (side[1:] != side[:-1]) | (group[1:] != group[:-1])
    return order.filter(pa.array(is_first))


def _no_rows(query: AggregateQuery) -> pa.Table:
    attributes = 1 + max(attribute for side in query.sides for attribute, _ in side.keys)
    values = max(len(side.values) for side in query.sides)
    numbers = ["side", "event_us", "row", "group", *(f"k_{number}" for number in range(attributes))]
    columns: dict[str, pa.Array] = {name: pa.array([], pa.int64()) for name in numbers}
    columns |= {f"v_{place}": pa.array([], pa.float64()) for place in range(values)}
    return pa.table(columns)


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


class GroupNames:
    """Rows of side, group and the columns of GROUP BY, each (side, group) once.

    They are in blocks sorted by side and group, each at least twice as long as the next: what is new costs O(log n).
    """

    def __init__(self) -> None:
        self._blocks: list[tuple[Any, pa.Table]] = []
        self._pruned = 0

    def __len__(self) -> int:
        return sum(len(ids) for ids, _ in self._blocks)

    def add(self, rows: pa.Table) -> None:
        """Add the groups of rows; those that are there stay as they are."""
        ids, first = np.unique(_ids(rows), return_index=True)
        is_new = np.ones(len(ids), np.bool_)
        for known, _ in self._blocks:
            is_new &= _found(known, ids) < 0
        if not is_new.any():
            return
        table = rows.take(pa.array(first[is_new]))
        if self._blocks:
            table = table.cast(self._blocks[0][1].schema)
        self._blocks.append((ids[is_new], table.combine_chunks()))
        while len(self._blocks) > 1 and len(self._blocks[-2][0]) < 2 * len(self._blocks[-1][0]):
            self._merge()

    def all(self) -> pa.Table:
        """Return all groups; side and group alone where there is none."""
        none = pa.table({"side": pa.array([], pa.int64()), "group": pa.array([], pa.int64())})
        return pa.concat_tables([table for _, table in self._blocks]) if self._blocks else none

    def column(self, name: str, side: int, group: Int64s) -> pa.Array:
        """Return what some groups of a side stand for in a column."""
        wanted = np.empty(len(group), _ID)
        wanted["side"], wanted["group"] = side, group
        ids, which = np.unique(wanted, return_inverse=True)
        parts, places, begin = [], np.full(len(ids), -1), 0
        for known, table in self._blocks:
            at = _found(known, ids)
            own = np.flatnonzero(at >= 0)
            places[own] = begin + np.arange(len(own))
            begin += len(own)
            parts.append(table[name].take(pa.array(at[own])).combine_chunks())
        if not parts:
            return pa.nulls(0)
        return pa.concat_arrays(parts).take(pa.array(places[which]))

    def prune(self, side: Any, group: Int64s) -> None:
        """Keep the groups of these rows only, as often as there are twice as many as were kept the last time."""
        held = np.empty(len(group), _ID)
        held["side"], held["group"] = side, group
        held = np.unique(held)
        kept = [(ids, table, _found(held, ids) >= 0) for ids, table in self._blocks]
        self._blocks = [
            (ids[stays], table.filter(pa.array(stays))) for ids, table, stays in kept if stays.any()
        ]
        self._pruned = len(self)

    @property
    def is_due(self) -> bool:
        """Tell if there are twice as many groups as when they were last pruned."""
        return len(self) > 1024 + 2 * self._pruned

    def _merge(self) -> None:
        (one, rows), (other, more) = self._blocks[-2:]
        ids = np.concatenate([one, other])
        order = np.argsort(ids, kind="stable")
        table = pa.concat_tables([rows, more]).combine_chunks().take(pa.array(order))
        self._blocks[-2:] = [(ids[order], table)]


def _ids(rows: pa.Table) -> Any:
    ids = np.empty(rows.num_rows, _ID)
    ids["side"], ids["group"] = rows["side"].to_numpy(), rows["group"].to_numpy()
    return ids


def _found(known: Any, wanted: Any) -> Int64s:
    """Return where each is among sorted ids, -1 where it is not."""
    if not len(known):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found: Int64s = np.where(known[at] == wanted, at, -1)
    return found

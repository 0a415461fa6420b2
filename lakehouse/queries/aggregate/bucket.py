"""One bucket of one batch of a join-aggregate: its state and new rows in; parts of answers, log and state out. No JVM.

What is held is the continuous query, keys and groups by their values:

    rows      side, enter_us, leave_us, k_0 ..., g_<name> ..., v_0 ..., row, weight    as the query holds them
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import Int64s, Partials, Rows, Shape
from lakehouse.algorithms.join_aggregate.online import Online, Outcome
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.rows import as_rows, buckets_of, is_used
from lakehouse.queries.aggregate.slack import policy_of
from lakehouse.queries.aggregate.tables import PARTS
from lakehouse.queries.aggregate.value_codes import BucketCodes, plain
from lakehouse.queries.runtime.recall.needed_slack import counted
from lakehouse.queries.runtime.tasks.bucket import (
    LOG,
    STATE,
    BucketResult,
    Change,
    Left,
    Metric,
    Segment,
    StateBefore,
    cut_by_time,
    log_rows,
    packed_rows,
    unpacked,
)

PART = "part"
_METHOD, _LAST = "method", "last"
_ROWS = "rows"
_PLAIN = ("side", "enter_us", "leave_us", "row", "weight")


@dataclass(frozen=True)
class BucketAggregate:
    """Inputs of a task: the query, the state, and the times between which ticks are to be answered.

    ``came_us``: with a recall, what all streams had passed before the batch, None if that is not known.
    """

    query: AggregateQuery
    shape: Shape
    before: StateBefore
    answered_us: int | None
    until_us: int | None
    came_us: int | None = None

    def __call__(self, bucket: int, rows: pa.Table, state: pa.Table) -> BucketResult:
        """Take one bucket's rows in."""
        before = self.before.of(bucket, state, partial(HeldAggregate, self.query, self.shape))
        held = before.held
        if not state.num_rows and self.answered_us is not None:
            # Ticks have passed while the bucket had no row: it answered them with nothing.
            held.online.process(Rows.none(self.shape), self.answered_us)
        used = rows.filter(pa.array(is_used(rows)))
        outcome, change = held.process(used, self.until_us, self.came_us)
        found = {
            PART: part_rows(self.query, Partials.joined([outcome.answered, outcome.revised]), held.codes),
            LOG: self._log(outcome, rows),
            STATE: self.before.keep(bucket, before, change),
        }
        result = BucketResult(found, self._metrics(held, outcome, (rows, used), before.bytes))
        held.prune()
        return result

    def _log(self, outcome: Outcome, rows: pa.Table) -> pa.Table:
        log, refused = outcome.log, rows.filter(rows["is_refused"])
        row = pa.array(np.concatenate([log.row, refused["row"].to_numpy()]))
        return log_rows(log, refused, {"row": row}, ("horizon_us",))

    def _metrics(
        self, held: HeldAggregate, outcome: Outcome, both: tuple[pa.Table, pa.Table], size: int
    ) -> dict[str, Metric]:
        rows, used = both
        metrics: dict[str, Metric] = {
            "rows": rows.num_rows,
            "late": outcome.late,
            "missed": len(outcome.log),
            "refused": int(np.count_nonzero(rows["is_refused"].to_numpy())),
            "unusable": int(np.count_nonzero(rows["is_unusable"].to_numpy())),
            "held": held.online.held,
            "bytes": size,
            "lags": self._lags(used),
        }
        return metrics_with_ticks(metrics, outcome.answered, outcome.revised)

    def _lags(self, used: pa.Table) -> list[int]:
        """Return how many rows came how far behind their first tick, for the policy of a recall."""
        if self.came_us is None:
            return []
        every_us = self.query.every_us
        first_us = -(-used["event_us"].to_numpy() // every_us) * every_us
        lag_us = self.came_us - first_us
        return counted(policy_of(self.query), np.zeros_like(lag_us), lag_us)


def metrics_with_ticks(metrics: Mapping[str, Metric], new: Partials, revised: Partials) -> dict[str, Metric]:
    """Return a bucket's metrics, and which ticks it has parts of."""
    first, last = revised.tick_us[:1].tolist(), revised.tick_us[-1:].tolist()
    ticks = {
        "first_us": min([*new.tick_us[:1].tolist(), *first], default=None),
        "first_revised_us": first[0] if first else None,
        "last_revised_us": last[0] if last else None,
    }
    return {**metrics, **ticks}


def part_rows(query: AggregateQuery, partials: Partials, codes: BucketCodes) -> pa.Table:
    """Return parts as rows; ``codes``: the numbers of their groups."""
    columns: dict[str, Any] = {"tick_us": pa.array(partials.tick_us), "results": pa.array(partials.results)}
    for group in query.groups:
        name = f"g_{group.name}"
        columns[name] = codes.groups(partials.group[:, group.side])[name]
    return pa.table(columns | aggregate_columns(partials))


def aggregate_columns(partials: Partials) -> dict[str, pa.Array]:
    """Return the parts of each aggregate as columns; no extreme is null."""
    return {
        f"{part}_{number}": pa.array(getattr(partials, part)[:, number], from_pandas=part == "extreme")
        for number in range(partials.counted.shape[1])
        for part in PARTS
    }


class HeldAggregate:
    """A continuous query with the numbers of its keys and groups."""

    def __init__(self, query: AggregateQuery, shape: Shape) -> None:
        self.online = Online(shape, query.method, query.every_us, query.slack_us)
        self.codes = BucketCodes(query)
        self._query, self._window_us = query, max(side.window_us for side in query.sides)
        self._unwritten: list[Rows] = []

    def process(
        self, rows: pa.Table, until_us: int | None, came_us: Int64s | int | None = None
    ) -> tuple[Outcome, Change]:
        """Take rows in, ``came_us`` as in ``as_rows``; return what became of them, and what it changes on disk."""
        outcome = self.online.process(as_rows(rows, self._query, self.codes, came_us), until_us)
        new, self._unwritten = [*self._unwritten, outcome.entered], []
        segments = [segment for entered in new for segment in self._segments(entered)]
        counters = {_METHOD: self.online.name.encode(), _LAST: str(self.online.last_us).encode()}
        return outcome, Change(counters, segments, {_ROWS: self.online.alive_from_us})

    def prune(self) -> None:
        """Forget values of which no row is held any more, now and then."""
        if self.codes.is_due:
            self.codes.prune(self.online.rows())

    def catch_up(self, counters: Mapping[str, bytes], segments: Sequence[Segment]) -> None:
        """Become the state of a later batch. Raises ValueError when the state is of another method or shape."""
        last, tables = self._read(Left(counters, segments))
        self.online.catch_up(last, self._rows(tables))

    def take_over(self, parents: Sequence[Left], bucket: int, buckets: int) -> None:
        """Become the state of a new bucket: the rows of old ones whose keys are in it.

        Raises ValueError when a state is of another method or shape.
        """
        lasts, parts = zip(*map(self._read, parents), strict=True)
        own = (
            each.filter(pa.array(buckets_of(self._query, each, buckets) == bucket)) for each in chain(*parts)
        )
        rows = self._rows(list(own))
        self.online.catch_up(max(lasts), rows)
        self._unwritten = [rows[rows.leave_us >= self.online.alive_from_us]]

    def _read(self, left: Left) -> tuple[int, list[pa.Table]]:
        """Return the last tick, and tables of rows."""
        counters = left.counters
        if (method := counters[_METHOD].decode()) != self.online.name:
            raise ValueError(f"expected the state of {self.online.name}, found that of {method}")
        return int(counters[_LAST]), [plain(unpacked(each.content)) for each in left.segments]

    def _segments(self, rows: Rows) -> Iterator[Segment]:
        for at in cut_by_time(rows.leave_us, self._window_us):
            yield Segment(_ROWS, int(rows.leave_us[at].max()), packed_rows(self._table(rows[at])))

    def _rows(self, tables: Sequence[pa.Table]) -> Rows:
        if not tables:
            return Rows.none(self.online.held_as)
        table = pa.concat_tables(tables)
        own: dict[str, Any] = {name: table[name].to_numpy() for name in _PLAIN}
        values = [table[f"v_{number}"].to_numpy() for number in range(self.online.held_as.columns)]
        own["values"] = np.column_stack(values) if values else np.zeros((len(table), 0))
        return Rows(**own, keys=self.codes.keys(table), group=self.codes.group(table))

    def _table(self, rows: Rows) -> pa.Table:
        columns = {name: pa.array(getattr(rows, name)) for name in _PLAIN}
        values = {
            f"v_{number}": pa.array(np.ascontiguousarray(own)) for number, own in enumerate(rows.values.T)
        }
        return pa.table(columns | self.codes.values(rows) | values)

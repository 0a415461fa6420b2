"""One bucket of one batch of a join-aggregate: its state and new rows in; parts of answers, log and state out. No JVM.

Everything comes back as rows of one table, ``kind`` says of what: a task of Spark returns one table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import Partials, Shape
from lakehouse.algorithms.join_aggregate.online import Outcome
from lakehouse.queries.aggregate.group_names import GroupNames
from lakehouse.queries.aggregate.held_aggregate import HeldAggregate
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.rows import as_rows, is_used
from lakehouse.queries.aggregate.tables import PARTS
from lakehouse.queries.runtime.bucket import StateBefore, gathered, log_rows, metrics_row, of_kind

PART = "part"


@dataclass(frozen=True)
class BucketAggregate:
    """What a task must know: the query, its columns, the state, and up to when ticks were and are to be answered."""

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

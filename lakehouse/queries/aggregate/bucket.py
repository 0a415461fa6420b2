"""One bucket of one batch of a join-aggregate: its state and new rows in; parts of answers, log and state out. No JVM.

Everything comes back as rows of one table, ``kind`` says of what: a task of Spark returns one table. Methods know
groups by number; what these stand for is held beside the state as long as a row of theirs is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import Partials, Shape, Snapshot
from lakehouse.algorithms.join_aggregate.online import Online, Outcome
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.rows import as_rows, is_used
from lakehouse.queries.aggregate.tables import PARTS
from lakehouse.queries.runtime.bucket import (
    gathered,
    log_rows,
    metrics_row,
    of_kind,
    packed,
    parts_of,
    state_rows,
    unpacked,
)
from lakehouse.queries.runtime.lookup import positions_of

PART = "part"
_GROUPS, _METHOD = "groups", "method"


@dataclass(frozen=True)
class BucketAggregate:
    """What a task must know: the query, its columns, and up to when ticks were and are to be answered."""

    query: AggregateQuery
    shape: Shape
    schema: pa.Schema
    answered_us: int | None
    until_us: int | None

    def __call__(self, key: tuple[pa.Scalar, ...], rows: pa.Table, state: pa.Table) -> pa.Table:
        """Take one bucket's rows in; the bucket's number is the key of the group."""
        online, groups = self._restored(state)
        used = rows.filter(pa.array(is_used(rows)))
        new = groups_of(used)
        groups = new if groups is None else _distinct(pa.concat_tables([groups.cast(new.schema), new]))
        outcome = online.process(as_rows(used, self.query), self.until_us)
        state = self._state(online, groups)
        parts = [
            part_rows(self.query, outcome.answered, groups),
            part_rows(self.query, outcome.revised, groups),
            self._log(outcome, rows),
            state_rows(state),
            self._metrics(online, outcome, rows, state),
        ]
        return gathered(parts, self.schema, key[0].as_py())

    def _restored(self, state: pa.Table) -> tuple[Online, pa.Table | None]:
        """Return the query as the bucket has it, and what its groups stand for."""
        query = self.query
        online = Online(self.shape, query.method, query.every_us, query.slack_us)
        if state.num_rows:
            parts = parts_of(state)
            groups = unpacked(parts.pop(_GROUPS))
            online.restore(Snapshot(parts.pop(_METHOD).decode(), parts))
            return online, groups
        if self.answered_us is not None:
            # Ticks have passed while the bucket had no row: it answered them with nothing.
            nothing = as_rows(_no_rows(self.query), query)
            online.process(nothing, self.answered_us)
        return online, None

    def _log(self, outcome: Outcome, rows: pa.Table) -> pa.Table:
        log, refused = outcome.log, rows.filter(rows["is_refused"])
        row = pa.array(np.concatenate([log.row, refused["row"].to_numpy()]))
        return log_rows(log, refused, row, ("horizon_us",))

    def _state(self, online: Online, groups: pa.Table) -> dict[str, bytes]:
        snapshot, rows = online.snapshot(), online.rows()
        held = pa.table({"side": rows.side.astype(np.int64), "group": rows.group})
        kept = groups.filter(pa.array(positions_of(held, groups, "group") >= 0))
        return {**snapshot.parts, _METHOD: snapshot.method.encode(), _GROUPS: packed(kept)}

    def _metrics(
        self, online: Online, outcome: Outcome, rows: pa.Table, state: Mapping[str, bytes]
    ) -> pa.Table:
        metrics = {
            "rows": rows.num_rows,
            "late": outcome.late,
            "missed": len(outcome.log),
            "refused": np.count_nonzero(rows["is_refused"].to_numpy()),
            "unusable": np.count_nonzero(rows["is_unusable"].to_numpy()),
            "held": len(online.rows()),
            "bytes": sum(map(len, state.values())),
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


def part_rows(query: AggregateQuery, partials: Partials, groups: pa.Table) -> pa.Table:
    """Return parts as rows; ``groups`` says what each (side, group) stands for."""
    columns: dict[str, Any] = {"tick_us": pa.array(partials.tick_us), "results": pa.array(partials.results)}
    for group in query.groups:
        side = np.full(len(partials), group.side)
        wanted = pa.table({"side": side, "group": partials.group[:, group.side]})
        columns[f"g_{group.name}"] = groups[f"g_{group.name}"].take(
            pa.array(positions_of(groups, wanted, "group"))
        )
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
    return _distinct(
        rows.select(["side", "group", *(name for name in rows.column_names if name.startswith("g_"))])
    )


def _distinct(rows: pa.Table) -> pa.Table:
    order = rows.take(pa.array(np.lexsort((rows["group"].to_numpy(), rows["side"].to_numpy()))))
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

"""One bucket of one batch of a join-aggregate: its state and new rows in; parts of answers, log and state out. No JVM.

Everything comes back as rows of one table, ``kind`` says of what: a task of Spark returns one table. Methods know
groups by number; what these stand for is held beside the state as long as a row of theirs is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import Partials, Shape, Snapshot
from lakehouse.algorithms.join_aggregate.online import Online, Outcome
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.rows import as_rows, is_used
from lakehouse.queries.aggregate.tables import PARTS
from lakehouse.queries.runtime.lookup import found_at

PART, LATE, STATE, FIGURES = "part", "late", "state", "figures"
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
        state_parts = self._state(online, groups)
        parts = [
            part_rows(self.query, outcome.answered, groups),
            part_rows(self.query, outcome.revised, groups),
            self._late(outcome, rows),
            _of_kind(STATE, state_parts, len(state_parts["part"])),
            self._figures(online, outcome, rows, state_parts),
        ]
        return gathered(parts, self.schema, key[0].as_py())

    def _restored(self, state: pa.Table) -> tuple[Online, pa.Table | None]:
        """Return the query as the bucket has it, and what its groups stand for."""
        query = self.query
        online = Online(self.shape, query.method, query.every_us, query.slack_us)
        if state.num_rows:
            parts = dict(zip(state["part"].to_pylist(), state["content"].to_pylist(), strict=True))
            groups = pa.ipc.open_stream(parts.pop(_GROUPS)).read_all()
            online.restore(Snapshot(parts.pop(_METHOD).decode(), parts))
            return online, groups
        if self.answered_us is not None:
            # Ticks have passed while the bucket had no row: it answered them with nothing.
            nothing = as_rows(_no_rows(self.query), query)
            online.process(nothing, self.answered_us)
        return online, None

    def _late(self, outcome: Outcome, rows: pa.Table) -> pa.Table:
        log, refused = outcome.log, rows.filter(rows["is_refused"])
        nothing = pa.nulls(refused.num_rows, pa.int64())
        columns = {
            "part": pa.array(["missed"] * len(log) + ["refused"] * refused.num_rows, pa.string()),
            "side": pa.array(np.concatenate([log.side, refused["side"].to_numpy()]).astype(np.int32)),
            "row": pa.array(np.concatenate([log.row, refused["row"].to_numpy()])),
            "event_us": pa.array(np.concatenate([log.event_us, refused["event_us"].to_numpy()])),
            "horizon_us": pa.chunked_array([pa.array(log.horizon_us), nothing]),
        }
        return _of_kind(LATE, columns, len(columns["row"]))

    def _state(self, online: Online, groups: pa.Table) -> dict[str, pa.Array]:
        snapshot, rows = online.snapshot(), online.rows()
        held = pa.table({"side": rows.side.astype(np.int64), "group": rows.group})
        kept = groups.filter(pa.array(found_at(held, groups, "group") >= 0))
        parts: Mapping[str, bytes] = {
            **snapshot.parts,
            _METHOD: snapshot.method.encode(),
            _GROUPS: _packed(kept),
        }
        return {"part": pa.array(list(parts)), "content": pa.array(list(parts.values()), pa.binary())}

    def _figures(
        self, online: Online, outcome: Outcome, rows: pa.Table, state: Mapping[str, pa.Array]
    ) -> pa.Table:
        figures = {
            "rows": rows.num_rows,
            "late": outcome.late,
            "missed": len(outcome.log),
            "refused": np.count_nonzero(rows["is_refused"].to_numpy()),
            "unusable": np.count_nonzero(rows["is_unusable"].to_numpy()),
            "held": len(online.rows()),
            "bytes": sum(len(part.as_py()) for part in state["content"]),
        }
        return figure_row(figures, outcome.answered, outcome.revised)


def figure_row(figures: Mapping[str, int], new: Partials, revised: Partials) -> pa.Table:
    """Return one row with a bucket's figures, and which ticks it has parts of."""
    first, last = revised.tick_us[:1].tolist(), revised.tick_us[-1:].tolist()
    ticks = {
        "first_us": min([*new.tick_us[:1].tolist(), *first], default=None),
        "first_revised_us": first[0] if first else None,
        "last_revised_us": last[0] if last else None,
    }
    told = {name: int(value) for name, value in figures.items()} | ticks
    return _of_kind(FIGURES, {f"f_{name}": pa.array([value], pa.int64()) for name, value in told.items()}, 1)


def part_rows(query: AggregateQuery, partials: Partials, groups: pa.Table) -> pa.Table:
    """Return parts as rows; ``groups`` says what each (side, group) stands for."""
    columns: dict[str, Any] = {"tick_us": pa.array(partials.tick_us), "results": pa.array(partials.results)}
    for group in query.groups:
        side = np.full(len(partials), group.side)
        wanted = pa.table({"side": side, "group": partials.group[:, group.side]})
        columns[f"g_{group.name}"] = groups[f"g_{group.name}"].take(
            pa.array(found_at(groups, wanted, "group"))
        )
    return _of_kind(PART, columns | aggregate_columns(partials), len(partials))


def aggregate_columns(partials: Partials) -> dict[str, pa.Array]:
    """Return the parts of each aggregate as columns; no extreme is null."""
    return {
        f"{part}_{number}": pa.array(getattr(partials, part)[:, number], from_pandas=part == "extreme")
        for number in range(partials.counted.shape[1])
        for part in PARTS
    }


def gathered(parts: Sequence[pa.Table], schema: pa.Schema, bucket: int) -> pa.Table:
    """Return the parts of a bucket's answer as one table; columns that a part has nothing for are null."""
    filled = []
    for part in parts:
        part = part.append_column("bucket", pa.repeat(bucket, part.num_rows))
        columns = [
            part[f.name].cast(f.type) if f.name in part.column_names else pa.nulls(part.num_rows, f.type)
            for f in schema
        ]
        filled.append(pa.table(columns, schema=schema))
    return pa.concat_tables(filled)


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


def _of_kind(kind: str, columns: Mapping[str, pa.Array | pa.ChunkedArray], rows: int) -> pa.Table:
    return pa.table({"kind": pa.repeat(kind, rows), **columns})


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())

"""Parts of answers -> answers: what the buckets of a batch or repair found for a tick and group is added up.

A tick and group that was answered before is answered again in full: the newest answer has the parts it was made of, and
is added to as one part more. The result does not depend on the order in which the parts come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.join_aggregate.contract import Int64s, Partials, Shape
from lakehouse.algorithms.join_aggregate.revision import merged
from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate.bucket import aggregate_columns
from lakehouse.queries.aggregate.measures import with_measures
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.tables import COUNTED_AS, counted_types, group_types, part_types
from lakehouse.queries.aggregate.value_codes import coded
from lakehouse.spark.ddl import schema_of

# The revision of parts that are not answered yet: the newest answer comes before them.
NEW = 2**31 - 1
_NEVER = -(2**62)
# What of an answer before stays where none of its rows is left.
_KEPT = ("tick_us", "revision", "part_bucket", COUNTED_AS)
_ORDER = (("revision", "ascending"), ("part_bucket", "ascending"))


def with_earlier(new: pa.Table, answers: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return new parts beside all answers that were given before for the same ticks and groups."""
    codes = coded(pa.concat_tables([new.select(names), answers.select(names)]), names)
    same = answers.filter(pa.array(np.isin(codes[len(new) :], codes[: len(new)])))
    return pa.concat_tables([new, same.select(new.column_names)])


@dataclass(frozen=True)
class Adding:
    """Parts -> answers of all ticks and groups that have parts."""

    query: AggregateQuery
    shape: Shape
    schema: pa.Schema
    how: str
    late_us: int | None

    @classmethod
    def of(
        cls,
        query: AggregateQuery,
        shape: Shape,
        streams: Mapping[str, Stream],
        how: str = "online",
        late_us: int | None = None,
    ) -> Adding:
        """Return how parts of a query are added up.

        ``how``: what answers are found by; ``late_us``: a first answer up to this tick is late.
        """
        own = {"results": "bigint", **part_types(len(shape.aggregates)), **counted_types(query)}
        columns = {"tick_us": "bigint", **group_types(query, streams), "revision": "int", **own}
        text = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        return cls(query, shape, schema_of(text), how, late_us)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of parts, other than those of GROUP BY."""
        parts = (*part_types(len(self.shape.aggregates)), *counted_types(self.query))
        return ("tick_us", "revision", "part_bucket", "results", *parts)

    @property
    def columns(self) -> list[str]:
        """The columns of answers."""
        return list(with_measures(self.schema.empty_table(), self.query).column_names)

    def __call__(self, parts: pa.Table) -> pa.Table:
        """Return the answers that parts, and earlier answers among them, add up to."""
        return with_measures(_added(parts, self), self.query)

    def instead(self, parts: pa.Table, known: pa.Table, keys: list[str]) -> pa.Table:
        """Return the answers that whole parts come to, where they count other results than the newest answers.

        An answer without a part counts none. ``known``: the newest answers.
        """
        blank = known.select(parts.column_names)
        for place, field in enumerate(blank.schema):
            if field.name.startswith("extreme_"):
                blank = blank.set_column(place, field, pa.nulls(len(known), field.type))
            elif field.name in self.read and field.name not in _KEPT:
                blank = blank.set_column(place, field, pa.repeat(pa.scalar(0, field.type), len(known)))
        answers = self(pa.concat_tables([parts, blank]))
        codes = coded(pa.concat_tables([known.select(keys), answers.select(keys)]), keys)
        before = np.zeros(codes.max(initial=-1) + 1, np.int64)
        before[codes[: len(known)]] = known["results"].to_numpy()
        return answers.filter(pa.array(answers["results"].to_numpy() != before[codes[len(known) :]]))


def _added(parts: pa.Table, adding: Adding) -> pa.Table:
    query, shape, schema = adding.query, adding.shape, adding.schema
    names = [group.name for group in query.groups]
    # In one order whatever way they came: floats add up alike.
    parts = parts.sort_by(list(_ORDER))
    tick, group = parts["tick_us"].to_numpy(), coded(parts, names)
    revision = parts["revision"].to_numpy()
    kept = _newest(tick, group, revision)
    parts, tick, group, revision = parts.take(pa.array(kept)), tick[kept], group[kept], revision[kept]
    first = _firsts(tick, group)
    answers = merged(shape, [_partials(parts, group, shape)])
    before = np.where(revision[first] == NEW, -1, revision[first])
    columns = {name: parts[name].take(pa.array(first)) for name in names}
    columns |= {"tick_us": pa.array(answers.tick_us), "results": pa.array(answers.results)}
    columns["revision"] = pa.array(before + 1, pa.int32())
    if query.recall is not None:
        was_complete = pc.equal(parts[COUNTED_AS].take(pa.array(first)), "online")
        revised = pc.if_else(pc.fill_null(was_complete, False), f"revised {adding.how}", None)
        is_late = answers.tick_us <= (_NEVER if adding.late_us is None else adding.late_us)
        first_as = pc.if_else(pa.array(is_late), "late" if adding.how == "online" else adding.how, adding.how)
        columns[COUNTED_AS] = pc.if_else(pa.array(before < 0), first_as, revised)
    return pa.table(columns | aggregate_columns(answers)).select(schema.names).cast(schema)


def _newest(tick: Int64s, group: Int64s, revision: Int64s) -> Int64s:
    """Return the rows to add up, by tick and group: all new parts, and of earlier answers only the newest."""
    order = np.lexsort((np.arange(len(tick)), revision, group, tick))
    tick, group, revision = tick[order], group[order], revision[order]
    is_last = np.ones(len(tick), np.bool_)
    is_last[:-1] = (tick[1:] != tick[:-1]) | (group[1:] != group[:-1]) | (revision[1:] == NEW)
    kept: Int64s = order[is_last | (revision == NEW)]
    return kept


def _partials(parts: pa.Table, group: Int64s, shape: Shape) -> Partials:
    """Return parts as the method gave them, each group as one number."""
    sides = np.zeros((parts.num_rows, shape.sides), np.int64)
    sides[:, 0] = group
    aggregates = range(len(shape.aggregates))

    def columns(part: str, empty: float) -> np.ndarray:
        filled = [pc.fill_null(parts[f"{part}_{number}"], empty).to_numpy() for number in aggregates]
        return np.column_stack(filled) if filled else np.zeros((parts.num_rows, 0))

    counted = columns("counted", 0).astype(np.int64)
    high, low, extreme = (
        columns(part, empty) for part, empty in (("high", 0.0), ("low", 0.0), ("extreme", np.nan))
    )
    tick, results = parts["tick_us"].to_numpy(), parts["results"].to_numpy()
    return Partials(tick, sides, results, counted, high, low, extreme)


def _firsts(tick: Int64s, group: Int64s) -> Int64s:
    """Return the first row of each tick and group; they are sorted."""
    is_first = np.ones(len(tick), np.bool_)
    is_first[1:] = (tick[1:] != tick[:-1]) | (group[1:] != group[:-1])
    return np.flatnonzero(is_first)

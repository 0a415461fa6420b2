"""The synopsis centre on the driver: what a batch counts per side, slot and time becomes its blocks' plans.

    counts of a batch: side, kind, until_us, packed vector     each task those of its raw rows
        -> Centre, restored as the batch before left it: windows expire, then each side's block in their order
        -> a plan per side: slots that can join, order, sizes, cost; and the state after the batch

Rows are counted until the end of a quarter of their window, so that a batch sends few counts; until then a row counts
that may have left its window, so sizes are bounds, and no row that could join is filtered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.algorithms.multiway_join.centre import NOWHERE, Centre
from lakehouse.algorithms.multiway_join.contract import Query, Sending, Sites, Snapshot, Vector
from lakehouse.algorithms.multiway_join.exhaustive import Smje
from lakehouse.algorithms.multiway_join.packed import pack, unpack
from lakehouse.algorithms.multiway_join.synopsis import HashedSynopsis
from lakehouse.queries.multiway.rows import is_used, kind_of_row

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Int64s, Plan
    from lakehouse.queries.multiway.query import MultiwayQuery

_METHOD = "method"
_PARTS_OF_WINDOW = 4
_LEAST = 1e-9
Transfer = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Block:
    """What becomes of one side's new rows.

    ``rows``: how many there are; ``held``: rows in the side's window with them. ``visits``: the sides that they meet,
    in order; ``shares``: which share of each one's window they can meet.
    """

    side: int
    plan: Plan
    rows: int
    held: int
    visits: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def slots(self) -> Int64s:
        """The slots whose rows can join."""
        return self.plan.filter.entries if self.plan.filter else np.empty(0, np.int64)

    @property
    def leaving(self) -> int:
        """How many rows are to leave the site."""
        return self.plan.filter.rows if self.plan.filter and self.visits else 0


class Planner:
    """Plans blocks batch after batch; made from the state that the batch before left, or from nothing."""

    def __init__(
        self, query: MultiwayQuery, transfer: Transfer, slots: int, state: Mapping[str, bytes]
    ) -> None:
        # Of orders that cost the same, as within one site, the one that moves the fewest rows.
        ways = np.asarray(transfer) + _LEAST * (1 - np.eye(len(query.sides)))
        self._names = tuple(f"{number} {side.stream}" for number, side in enumerate(query.sides))
        sites = Sites.of(self._names, ways)
        windows = tuple(side.window_us for side in query.sides)
        self._synopsis = HashedSynopsis(len(sites), slots)
        self.centre = Centre(Query(sites, windows), self._synopsis, Smje(), Sending(is_compact=True))
        if state:
            parts = {name: part for name, part in state.items() if name != _METHOD}
            self.centre.restore(Snapshot(state[_METHOD].decode(), parts))
            # What ways cost may have been declared anew since.
            self.centre.measure(sites.transfer)

    def plan(self, counts: pa.Table, at_us: int | None) -> list[Block]:
        """Return what becomes of each side's new rows; windows end at a time, None for none yet."""
        if at_us is not None:
            self.centre.advance(max(at_us, self.centre.at_us))
        used = counts.filter(pc.is_in(counts["kind"], pa.array(["used", "missed"])))
        sides = range(len(self._names))
        return [self._block(side, used.filter(pc.equal(used["side"], side))) for side in sides]

    def _block(self, side: int, counts: pa.Table) -> Block:
        until = counts["until_us"].to_pylist()
        vectors = [unpack(packed) for packed in counts["packed"].to_pylist()]
        parts = [
            (at, _sum([each for each, then in zip(vectors, until, strict=True) if then == at]))
            for at in sorted(set(until))
        ]
        vector = _sum(vectors)
        plan = self.centre.apply(self._names[side], vector, parts)
        visits = [self._names.index(name) for name in plan.order]
        held = self._synopsis.counts.sum(axis=1)
        shares = plan.reads[: len(visits)] / np.maximum(held[visits], 1)
        return Block(side, plan, vector.rows, int(held[side]), tuple(visits), tuple(shares.tolist()))

    def state(self) -> dict[str, bytes]:
        """Return the parts of the state."""
        snapshot = self.centre.snapshot()
        return {_METHOD: snapshot.method.encode(), **snapshot.parts}


def _sum(vectors: Sequence[Vector]) -> Vector:
    entries = np.concatenate([NOWHERE, *(vector.entries for vector in vectors)])
    counts = np.concatenate([NOWHERE, *(vector.counts for vector in vectors)])
    found, which = np.unique(entries, return_inverse=True)
    return Vector.of(found, np.bincount(which, counts, len(found)).astype(np.int64))


def counted(rows: DataFrame, query: MultiwayQuery, horizon_us: int | None, next_us: int | None) -> pa.Table:
    """Return the counts of rows: side, kind, until_us, rows and the packed vector, each of a part of them.

    ``horizon_us``: rows before it came late; ``next_us``: the same of the next batch, where rows that are beyond their
    windows then are all counted until one time. Rows that join nothing have neither time nor vector. Nothing is
    shuffled: each task packs its own rows.
    """
    until = F.when(is_used(), _until(query, next_us)).alias("until_us")
    told = rows.select("side", kind_of_row(horizon_us).alias("kind"), "slot", until)
    schema = "side int, kind string, until_us bigint, rows bigint, packed binary"
    return told.mapInArrow(pack_rows, schema).toArrow()


def pack_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the counts of the rows of one task: side, kind, until_us, rows, packed."""
    parts = list(batches)
    if not parts:
        return
    rows = pa.Table.from_batches(parts)
    counts = rows.group_by(["side", "kind", "until_us", "slot"]).aggregate([([], "count_all")])
    groups = counts.group_by(["side", "kind", "until_us"]).aggregate(
        [("slot", "list"), ("count_all", "list")]
    )
    for group in groups.to_batches():
        listed = zip(group["slot_list"], group["count_all_list"], strict=True)
        arrays = [[each.values.fill_null(0).to_numpy() for each in both] for both in listed]
        joins = [until is not None for until in group["until_us"].to_pylist()]
        packed = [
            pack(Vector.of(slots, count)) if joins_any else None
            for (slots, count), joins_any in zip(arrays, joins, strict=True)
        ]
        told = [group[name] for name in ("side", "kind", "until_us")]
        total = pa.array([int(count.sum()) for _, count in arrays], pa.int64())
        yield pa.record_batch(
            [*told, total, pa.array(packed, pa.binary())], ["side", "kind", "until_us", "rows", "packed"]
        )


def taken(counts: pa.Table, sides: int) -> list[dict[str, int]]:
    """Return per side how many rows there are, and of which kind."""
    whole = counts.group_by(["side", "kind"]).aggregate([("rows", "sum")]).to_pylist()
    found = [{kind: 0 for kind in ("used", "missed", "refused", "unusable")} for _ in range(sides)]
    for row in whole:
        found[row["side"]][row["kind"]] = row["rows_sum"]
    return [{"rows": sum(kinds.values()), **kinds} for kinds in found]


def _until(query: MultiwayQuery, at_us: int | None) -> Column:
    until = F.lit(None).cast("bigint")
    for number, side in enumerate(query.sides):
        width = max(side.window_us // _PARTS_OF_WINDOW, 1)
        event = F.col("event_us")
        if at_us is not None:
            event = F.greatest(event, F.lit(at_us - side.window_us - 1))
        end = ((F.floor(event / F.lit(float(width))) + 1) * width - 1).cast("bigint")
        until = F.when(F.col("side") == number, end).otherwise(until)
    return until

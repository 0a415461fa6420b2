"""The synopsis centre on the driver: what a batch counts per side, slot and time becomes its blocks' plans.

    counts of a batch: side, until_us, packed vector     each task those of its rows
        -> Centre, restored as the batch before left it: windows expire, then each side's block in their order
        -> a plan per side: slots that can join, order, sizes, cost; and the state after the batch

Vectors have an entry for each of ``MOST_SLOTS`` ranges of hashes; the centre counts them in as many slots as the keys
of its windows ask for. Rows are counted until the end of a quarter of their window, so that a batch sends few counts;
until then a row counts that may have left its window, so sizes are bounds, and no row that could join is filtered.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.multiway_join.centre import NOWHERE, Centre
from lakehouse.algorithms.multiway_join.contract import Int64s, Plan, Query, Sending, Sites, Snapshot, Vector
from lakehouse.algorithms.multiway_join.heuristic import ORDERINGS
from lakehouse.algorithms.multiway_join.synopsis import HashedSynopsis, pack, slots_for, unpack
from lakehouse.queries.multiway.query import MultiwayQuery

COUNTS = pa.schema([("side", pa.int32()), ("until_us", pa.int64()), ("packed", pa.binary())])
_METHOD = "method"
_PARTS_OF_WINDOW = 4
_LEAST = 1e-9
Transfer = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Block:
    """Plan for one side's new rows.

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
        """Number of rows that are to leave the site."""
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
        self._slots = slots
        synopsis = HashedSynopsis(len(sites), slots_for(0, slots), slots)
        self.centre = Centre(
            Query(sites, windows), synopsis, ORDERINGS[query.routing](), Sending(is_compact=True)
        )
        # A state that was made in another way is none.
        self._knows_windows = bool(state) and state[_METHOD].decode() == self.centre.snapshot().method
        if self._knows_windows:
            parts = {name: part for name, part in state.items() if name != _METHOD}
            self.centre.restore(Snapshot(state[_METHOD].decode(), parts))
            # What ways cost may have been declared anew since.
            self.centre.measure(sites.transfer)

    @property
    def knows_windows(self) -> bool:
        """True if the rows of the windows are counted: not if the batch before was joined without counting."""
        return self._knows_windows

    def remember(self, counts: pa.Table, at_us: int | None) -> None:
        """Count the rows that windows have by a time, None for none yet; nothing was counted before."""
        self._advance(at_us)
        for name, (parts, vector) in zip(self._names, self._counts(counts), strict=True):
            self.centre.add(name, vector, parts)

    def plan(self, counts: pa.Table, at_us: int | None) -> list[Block]:
        """Return what becomes of each side's new rows; windows end at a time, None for none yet."""
        self._advance(at_us)
        return [self._block(side, *both) for side, both in enumerate(self._counts(counts))]

    def _counts(self, counts: pa.Table) -> list[tuple[list[tuple[int, Vector]], Vector]]:
        """Return each side's counts; before they are used, there are slots enough for their keys too."""
        found = [_parts(counts, side) for side in range(len(self._names))]
        keys = [self.centre.keys(name, vector) for name, (_, vector) in zip(self._names, found, strict=True)]
        slots = slots_for(max(keys), self._slots)
        if slots != self._synopsis.slots:
            self.centre.recount(HashedSynopsis(len(self._names), slots, self._slots))
        return found

    @property
    def _synopsis(self) -> HashedSynopsis:
        synopsis = self.centre.synopsis
        assert isinstance(synopsis, HashedSynopsis)
        return synopsis

    def _advance(self, at_us: int | None) -> None:
        if at_us is not None:
            self.centre.advance(max(at_us, self.centre.at_us))

    def _block(self, side: int, parts: Sequence[tuple[int, Vector]], vector: Vector) -> Block:
        plan = self.centre.apply(self._names[side], vector, parts)
        visits = [self._names.index(name) for name in plan.order]
        held = self._synopsis.counts.sum(axis=1)
        shares = plan.reads[: len(visits)] / np.maximum(held[visits], 1)
        return Block(side, plan, vector.rows, int(held[side]), tuple(visits), tuple(shares.tolist()))

    def state(self) -> dict[str, bytes]:
        """Return the parts of the state."""
        snapshot = self.centre.snapshot()
        return {_METHOD: snapshot.method.encode(), **snapshot.parts}


def _parts(counts: pa.Table, side: int) -> tuple[list[tuple[int, Vector]], Vector]:
    """Return a side's counts by until when they count, and all of them."""
    own = counts.filter(pc.equal(counts["side"], side))
    until = own["until_us"].to_pylist()
    vectors = [unpack(packed) for packed in own["packed"].to_pylist()]
    parts = [
        (at, _sum([each for each, then in zip(vectors, until, strict=True) if then == at]))
        for at in sorted(set(until))
    ]
    return parts, _sum(vectors)


def _sum(vectors: Sequence[Vector]) -> Vector:
    entries = np.concatenate([NOWHERE, *(vector.entries for vector in vectors)])
    counts = np.concatenate([NOWHERE, *(vector.counts for vector in vectors)])
    found, which = np.unique(entries, return_inverse=True)
    return Vector.of(found, np.bincount(which, counts, len(found)).astype(np.int64))


def counts_of(rows: pa.Table, query: MultiwayQuery, slots: int, next_us: int | None) -> pa.Table:
    """Return the counts of rows of windows, those of a task: side, until_us and the packed vector.

    ``next_us``: up to when rows are late for the next batch; those that are beyond their windows then are all counted
    until one time.
    """
    slot = np.mod(rows["key"].to_numpy(), slots).astype(np.int32)
    side, until = rows["side"].to_numpy(), np.zeros(len(rows), np.int64)
    for number in range(len(query.sides)):
        own = side == number
        until[own] = _until(rows["event_us"].to_numpy()[own], query.sides[number].window_us, next_us)
    columns = {"side": rows["side"], "slot": pa.array(slot), "until_us": pa.array(until)}
    found = [pa.table(batch) for batch in pack_rows(pa.table(columns).to_batches())]
    return pa.concat_tables([COUNTS.empty_table(), *(each.cast(COUNTS) for each in found)])


def pack_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the counts of the rows of one task: side, until_us, packed."""
    parts = list(batches)
    if not parts:
        return
    rows = pa.Table.from_batches(parts)
    counts = rows.group_by(["side", "until_us", "slot"]).aggregate([([], "count_all")])
    groups = counts.group_by(["side", "until_us"]).aggregate([("slot", "list"), ("count_all", "list")])
    for group in groups.to_batches():
        listed = zip(group["slot_list"], group["count_all_list"], strict=True)
        packed = [pack(Vector.of(*(each.values.to_numpy() for each in both))) for both in listed]
        yield pa.record_batch(
            [group["side"], group["until_us"], pa.array(packed, pa.binary())], ["side", "until_us", "packed"]
        )


def _until(event_us: Int64s, window_us: int, at_us: int | None) -> Int64s:
    """Return up to when rows count."""
    width = max(window_us // _PARTS_OF_WINDOW, 1)
    event = event_us if at_us is None else np.maximum(event_us, at_us - window_us - 1)
    until: Int64s = (event // width + 1) * width - 1
    return until

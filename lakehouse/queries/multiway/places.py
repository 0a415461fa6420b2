"""Places in which rows of equal keys meet: the results of blocks on their routes, and figures of them.

A row of side i meets of the sides before it the rows of this batch and earlier ones, of the sides after it the earlier
ones alone: so each result is found by the block of its last side that has a row of its newest batch, once. Of earlier
batches those rows are met that are within ``since_us``; which others there were the repair finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.multiway_join.contract import Bools, Int64s
from lakehouse.algorithms.multiway_join.joining import Joined, results_on_route
from lakehouse.queries.multiway.centre import Block
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.reach import Reach, policy_of, slack_needed
from lakehouse.queries.multiway.rows import TAKEN, kinds_of, logged_rows
from lakehouse.queries.runtime.recall.needed_slack import counted
from lakehouse.queries.runtime.tasks.bucket import LOG, BucketResult, Metric
from lakehouse.spark.key_codes import key_codes
from lakehouse.spark.noted_rows import PLACE
from lakehouse.spark.row_hash import xxhash64

RESULT = "result"
# A place holds at most so many bytes of combinations at a time.
_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Route:
    """A block's stops in their order, and its slots that can join; None for all rows."""

    side: int
    visits: tuple[int, ...]
    slots: Int64s | None = None

    @classmethod
    def of(cls, block: Block) -> Route:
        """Return the route of a block."""
        return cls(block.side, block.visits, block.slots)


def whole_routes(sides: int) -> tuple[Route, ...]:
    """Return the routes of all new rows, which meet the other sides in the order of the query."""
    return tuple(Route(side, tuple(each for each in range(sides) if each != side)) for side in range(sides))


@dataclass(frozen=True)
class JoinPlaces:
    """The kernel of places, each of which has all rows of its keys that can join.

    ``slots``: how many there are where routes name some. ``batch``: the one whose late rows are logged, and rows
    counted, as they come from raw; None where that was done when they were kept in windows.
    """

    reach: Reach
    routes: tuple[Route, ...]
    slots: int = 1
    batch: int | None = None

    def __call__(self, place: int, rows: pa.Table) -> BucketResult:
        """Return the result of a place with rows."""
        query = self.reach.query
        sides = by_side(rows, len(query.sides))
        used = [used_rows(each) for each in sides]
        joined = as_joined(query, used, [each["is_new"].to_numpy() for each in used])
        results, needed = list[pa.Table](), list[int]()
        metrics: dict[str, Metric] = {"bytes": rows.nbytes}
        for route in self.routes:
            leaves = joined[route.side].is_new
            if route.slots is not None:
                hashed = used[route.side]["key"].to_numpy()
                leaves = leaves & np.isin(np.mod(hashed, self.slots), route.slots)
            start = np.flatnonzero(leaves)
            found, sizes = results_on_route(joined, route.side, start, route.visits, most_met(query))
            results.append(shown(query, used, found))
            needed += slacks_of(self.reach, joined, found)
            metrics |= {f"{route.side}_{stop}": int(size) for stop, size in enumerate(sizes)}
        tables = {RESULT: pa.concat_tables(results)}
        if self.batch is not None:
            tables[LOG] = self._counted(sides, metrics, self.batch)
        return BucketResult(tables, {**metrics, "needed": needed})

    def _counted(self, sides: Sequence[pa.Table], metrics: dict[str, Metric], batch: int) -> pa.Table:
        """Return the rows to be logged; add to metrics how many rows of each kind there are."""
        logs, lags = list[pa.Table](), list[int]()
        for side, rows in enumerate(sides):
            late_us = self.reach.late_us(side)
            kinds = kinds_of(rows, rows["is_new"].to_numpy(), late_us)
            logs.append(logged_rows(rows, kinds, late_us, batch, self.reach.time_us))
            lags += lags_of(self.reach, side, rows, kinds)
            metrics |= {f"{name}_{side}": int(kinds[name].sum()) for name in TAKEN}
            metrics[f"held_{side}"] = rows.num_rows
        metrics["lags"] = lags
        return pa.concat_tables(logs, promote_options="permissive")


def slacks_of(reach: Reach, joined: Sequence[Joined], found: Int64s) -> list[int]:
    """Return how many results of a batch, by places in ``joined``, needed which slack; nothing if nobody learns it."""
    if reach.query.recall is None or reach.time_us is None:
        return []
    event_us = np.column_stack([each.event_us[found[:, side]] for side, each in enumerate(joined)])
    is_new = np.column_stack([each.is_new[found[:, side]] for side, each in enumerate(joined)])
    return counted(policy_of(reach.query), *slack_needed(reach.query, event_us, is_new, reach.time_us))


def lags_of(reach: Reach, side: int, rows: pa.Table, kinds: Mapping[str, Bools]) -> list[int]:
    """Return how many new rows of a side that join came how far behind the time before; nothing if nobody learns it."""
    if reach.query.recall is None or reach.time_us is None:
        return []
    is_used = kinds["rows"] & ~kinds["refused"] & ~kinds["unusable"]
    lag_us = reach.time_us - rows["event_us"].to_numpy()[is_used]
    return counted(policy_of(reach.query), np.full(len(lag_us), side), lag_us)


def by_side(rows: pa.Table, sides: int) -> list[pa.Table]:
    """Return the rows of each side."""
    return [rows.filter(pc.equal(rows["side"], side)).combine_chunks() for side in range(sides)]


def used_rows(rows: pa.Table) -> pa.Table:
    """Return the rows that join: those with a whole key whose clock is believed."""
    is_refused = rows["is_refused"].to_numpy()
    return rows.filter(pa.array(rows["key"].is_valid().to_numpy() & ~is_refused))


def as_joined(query: MultiwayQuery, used: Sequence[pa.Table], is_new: Sequence[Bools]) -> list[Joined]:
    """Return the rows of all sides that join as the method takes them: with numbers that are equal where keys are."""
    keys = key_codes(
        [rows.select([f"k_{place}" for place in range(len(query.sides[0].keys))]) for rows in used]
    )
    return [
        Joined(key.code, rows["event_us"].to_numpy(), new, side.window_us)
        for key, rows, new, side in zip(keys, used, is_new, query.sides, strict=True)
    ]


def most_met(query: MultiwayQuery) -> int:
    """Return how many combinations a place holds at most."""
    return _MOST_BYTES // (8 * (len(query.sides) + 4))


def shown(query: MultiwayQuery, used: Sequence[pa.Table], found: Int64s) -> pa.Table:
    """Return combinations, one a line by places in ``used``, as the results that they are."""
    times = np.column_stack([rows["event_us"].to_numpy()[found[:, side]] for side, rows in enumerate(used)])
    places = [rows.select(PLACE).take(pa.array(found[:, side])) for side, rows in enumerate(used)]
    ids = np.column_stack([xxhash64(each.columns, len(each)) for each in places])
    outputs = {
        each.name: used[each.side][f"o_{each.name}"].take(pa.array(found[:, each.side]))
        for each in query.outputs
    }
    own = {"event_us": times.max(axis=1), "times_us": _lists(times), "row_ids": _lists(ids)}
    for name in PLACE:
        own[f"{name.replace('source', 'row')}s"] = _side_by_side([each[name] for each in places])
    return pa.table({**own, **outputs})


def _lists(values: Int64s) -> pa.Array:
    """Return each line as a list."""
    return _cut(pa.array(values.ravel()), len(values))


def _side_by_side(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """Return the values of each row as a list."""
    rows, whole = len(columns[0]), pa.chunked_array([part for each in columns for part in each.chunks])
    at = np.arange(rows * len(columns)).reshape(len(columns), rows).T.ravel()
    return _cut(whole.take(pa.array(at)).combine_chunks(), rows)


def _cut(values: pa.Array, rows: int) -> pa.Array:
    each = len(values) // max(rows, 1)
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * each), values)

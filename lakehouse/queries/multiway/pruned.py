"""A batch joined from windows: of all rows, or pruned to those of slots that can join.

    rows of windows that pass -> all of a key in one place -> each block on its route -> results, and how many moved

A row of side i meets of the sides before it the rows of this batch and earlier ones, of the sides after it the earlier
ones alone: so each result is found by the block of its last side that has a row of its newest batch, once. Of earlier
batches those rows are met that are within ``since_us``; which others there were the repair finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.multiway_join.contract import Float64s, Int64s
from lakehouse.algorithms.multiway_join.joining import results_on_route
from lakehouse.engine import Engine
from lakehouse.engine.parts import sink_of
from lakehouse.queries.multiway.centre import Block
from lakehouse.queries.multiway.plain import RESULT, as_joined, by_side, most_met, shown, slacks_of
from lakehouse.queries.multiway.reach import Reach
from lakehouse.queries.multiway.windows import Passing, Windows
from lakehouse.queries.runtime.tasks.bucket import BucketResult, Metric
from lakehouse.queries.runtime.tasks.by_bucket import ROWS_A_PLACE, Answered, Output, run_buckets
from lakehouse.storage.stores.store_path import Location


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


def whole_routes(sides: int) -> list[Route]:
    """Return the routes of all new rows, which meet the other sides in the order of the query."""
    return [Route(side, tuple(each for each in range(sides) if each != side)) for side in range(sides)]


def join_windows(
    engine: Engine,
    windows: Windows,
    results: Location,
    routes: Sequence[Route],
    slots: int,
) -> Answered:
    """Write the results of the blocks, to be committed; metrics are the rows that moved, and ``bytes``."""
    query, sides = windows.query, range(len(windows.query.sides))
    held = sum(windows.held(side) for side in sides)
    places = 1 + held // ROWS_A_PLACE
    inputs = [windows.rows(side, places, passing(routes, side, slots)) for side in sides]
    outputs = [Output(RESULT, sink_of(results), {"found": "online", "batch": windows.batch})]
    step = f"query {query.name}, batch {windows.batch}"
    kernels = RoutePlaces(windows.reach, tuple(routes), slots)
    return run_buckets(engine, step, inputs, places, kernels, outputs)


def moved(found: Answered, route: Route) -> Float64s:
    """Return how many rows left a block's site, then each stop."""
    stops = range(len(route.visits) + 1)
    return np.array([sum(row[f"{route.side}_{stop}"] for row in found.metrics) for stop in stops], np.float64)


def passing(routes: Sequence[Route], side: int, slots: int) -> Passing | None:
    """Return the slots of a side's rows that some block has or meets; None for all."""
    own = [each.slots for each in routes if each.side == side]
    others = [each.slots for each in routes if each.side != side]
    if any(each is None for each in (*own, *others)):
        return None
    new, met = (np.unique(np.concatenate([np.empty(0, np.int64), *known])) for known in (own, others))
    return Passing(slots, new, met)


@dataclass(frozen=True)
class RoutePlaces:
    """The kernel of places, each of which has all rows of its keys that can join."""

    reach: Reach
    routes: tuple[Route, ...]
    slots: int

    def __call__(self, place: int, rows: pa.Table) -> BucketResult:
        """Return the result of a place with rows."""
        query = self.reach.query
        used = by_side(rows, len(query.sides))
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
        return BucketResult({RESULT: pa.concat_tables(results)}, {**metrics, "needed": needed})

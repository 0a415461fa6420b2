"""A batch joined from windows: of all rows, or pruned to those of slots that can join.

rows of windows that pass -> all of a key in one place -> each block on its route -> results, and how many moved
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakehouse.algorithms.multiway_join.contract import Float64s
from lakehouse.engine import Engine
from lakehouse.engine.parts import sink_of
from lakehouse.queries.multiway.places import RESULT, JoinPlaces, Route
from lakehouse.queries.multiway.windows import Passing, Windows
from lakehouse.queries.runtime.tasks.by_bucket import ROWS_A_PLACE, Answered, Output, run_buckets
from lakehouse.storage.stores.store_path import Location


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
    kernels = JoinPlaces(windows.reach, tuple(routes), slots)
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

"""Results of a join that have a new row, found at once: keys equal, each row in its window.

Each result is found from the last side that has a new row of it: that side's new rows meet all rows of the sides before
it, and the older rows of the sides after it. So no result is found twice, and none of older rows alone.

Source: none, it is the nested join by sorted keys that the paper's pruning is measured against.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakehouse.algorithms.multiway_join.contract import Bools, Int64s


@dataclass(frozen=True)
class Joined:
    """The rows of one side: a row is in the window while the newest of a result is at most ``window_us`` after it."""

    key: Int64s
    event_us: Int64s
    is_new: Bools
    window_us: int


def results_of(sides: Sequence[Joined], start: int, rows: Int64s, most: int) -> Int64s:
    """Return the results that have one of some rows of a side, one a line; whether rows are new plays no part.

    Cost and memory: as of ``results_on_route``.
    """
    order = [stop for stop in range(len(sides)) if stop != start]
    return _results(sides, start, rows, order, [np.arange(len(side.key)) for side in sides], most)[0]


def results_on_route(
    sides: Sequence[Joined], start: int, rows: Int64s, order: Sequence[int], most: int
) -> tuple[Int64s, Int64s]:
    """Return the results of which a side is the last that has a new row, from some of its new rows.

    Also how many combinations there are at the start and after each stop. ``order``: that of the stops.

    Cost: O(n log n) for n rows, and the combinations that new rows meet from stop to stop. Memory: about ``most``
    combinations at a stop, or those of one row, beside the results.
    """
    return _results(sides, start, rows, order, _met_by_new(sides, start), most)


def _met_by_new(sides: Sequence[Joined], last: int) -> list[Int64s]:
    """Return the rows of each side that new rows of one meet."""
    return [
        np.arange(len(side.key)) if stop < last else np.flatnonzero(~side.is_new)
        for stop, side in enumerate(sides)
    ]


def _results(
    sides: Sequence[Joined],
    start: int,
    rows: Int64s,
    order: Sequence[int],
    met: Sequence[Int64s],
    most: int,
) -> tuple[Int64s, Int64s]:
    """Return the results that have one of some rows of a side, in halves if they meet more than ``most`` at a stop."""
    chosen = np.full((len(rows), len(sides)), -1, np.int64)
    chosen[:, start], visited, sizes = rows, [start], [len(rows)]
    for stop in order:
        more = _met(sides, chosen, visited, stop, met[stop], most if len(rows) > 1 else None)
        if more is None:
            halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
            one, two = (_results(sides, start, half, order, met, most) for half in halves)
            return np.concatenate([one[0], two[0]]), one[1] + two[1]
        chosen = more
        visited.append(stop)
        sizes.append(len(chosen))
    return chosen, np.array(sizes, np.int64)


def _met(
    sides: Sequence[Joined], rows: Int64s, visited: Sequence[int], stop: int, met: Int64s, most: int | None
) -> Int64s | None:
    """Return each combination with each row of a stop, out of those that may be met, that it joins.

    None if it would meet more than ``most`` rows with an equal key.
    """
    side, first = sides[stop], sides[visited[0]]
    met = met[np.argsort(side.key[met], kind="stable")]
    keys, known = side.key[met], first.key[rows[:, visited[0]]]
    start, end = np.searchsorted(keys, known, "left"), np.searchsorted(keys, known, "right")
    counts = end - start
    if most is not None and counts.sum() > most:
        return None
    of = np.repeat(np.arange(len(rows)), counts)
    partner = met[np.arange(len(of)) + np.repeat(start - (np.cumsum(counts) - counts), counts)]
    is_close, event = np.ones(len(of), np.bool_), side.event_us[partner]
    for other in visited:
        after = event - sides[other].event_us[rows[of, other]]
        is_close &= (after <= sides[other].window_us) & (-after <= side.window_us)
    close: Int64s = rows[of[is_close]]
    close[:, stop] = partner[is_close]
    return close

"""Contract of scheduling policies: queries as trees of operators, measurements, plans.

One machine runs all operators of all registered queries, one at a time. In front of each operator tuples wait in the
order in which they arrived.

    operator ....... takes a tuple, passes it on or not; *commutes* if its neighbours may change places with it
    chain .......... operators over one stream, or over a join of two chains; joins nest
    position ....... a place in the written plan; a plan says which operator stands at it
    n, S, V ........ tuples that an operator handles a second, the share it passes, arrivals of a stream a second
    deadline T ..... how long after its arrival a result may leave

Times are int64 microseconds, rates are per second.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MILLISECOND, SECOND = 1000, 1_000_000
LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class Operator:
    """A step of a chain; its name is unique in its query.

    ``commutes``: a filter whose verdict on a tuple is its own, so that filters beside each other may change places.
    """

    name: str
    commutes: bool = False


@dataclass(frozen=True)
class Join:
    """An operator that reads two chains, each tuple in the order of arrival over both."""

    name: str
    left: Chain
    right: Chain


@dataclass(frozen=True)
class Chain:
    """Operators one after the other; the first reads a stream, by its name, or a join."""

    source: str | Join
    operators: tuple[Operator, ...] = ()


@dataclass(frozen=True)
class Query:
    """A continuous query: what it runs, and T, counted from a tuple's arrival."""

    name: str
    chain: Chain
    deadline_us: int = 600 * MILLISECOND


@dataclass(frozen=True)
class Statistics:
    """Measurements of an interval. ``arrived_per_s`` is V by stream; n and S are operators x sides, float64.

    ``handled_per_s`` is n, ``selectivity`` is S; an operator that reads one input has them at ``LEFT``. ``switch_us``:
    what it took to turn from one operator to another. Raises ValueError when a value is not finite or negative, or n is
    0.
    """

    arrived_per_s: Float64s
    handled_per_s: Float64s
    selectivity: Float64s
    switch_us: float = 0.0

    def __post_init__(self) -> None:
        for name, low in (
            ("arrived_per_s", 0.0),
            ("handled_per_s", np.nextafter(0, 1)),
            ("selectivity", 0.0),
        ):
            values = getattr(self, name)
            if not (np.isfinite(values).all() and (values >= low).all()):
                above = "above" if low else "from"
                raise ValueError(f"expected {name} finite and {above} 0, found {values.tolist()}")


class Discipline(IntEnum):
    """Rule that picks the next of the operators that have input."""

    # The one with the oldest tuple.
    OLDEST = 0
    # The one with the highest priority, the oldest tuple among equals.
    HIGHEST = 1
    # The next of a round, until its slice is over or nothing waits for it.
    ROUND = 2


@dataclass(frozen=True)
class Plan:
    """Plan of operators over cores and time. By position, but ``visits``: positions in the order of a round.

    ``order``: the operator at each position. ``slices_us``: how long an operator may keep its turn in a round.
    """

    order: Int64s
    discipline: Discipline
    priority: Float64s
    visits: Int64s
    slices_us: Int64s

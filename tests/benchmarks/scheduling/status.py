"""View of a running executor: per operator its place, its measurements, and its turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.algorithms.scheduling.flow import flow

if TYPE_CHECKING:
    from lakehouse.algorithms.scheduling.executor import Executor


@dataclass(frozen=True)
class OperatorStatus:
    """One operator of one query at its place in the order, upstream first.

    ``handled_per_s`` and ``selectivity`` are n and S of the last interval, in rows; ``load`` is the share of the
    machine's time that it takes; ``slice_us`` how long a turn lasts at most; ``waiting`` rows in front of it.
    """

    query: str
    operator: str
    handled_per_s: float
    selectivity: float
    load: float
    priority: float
    slice_us: int
    waiting: int


def status(executor: Executor) -> list[OperatorStatus]:
    """Return every operator in the order that is in force. Cost: O(operators)."""
    network, planning, order = executor.network, executor.planning, executor.order
    flowing = flow(network, planning.measured, order)
    waiting = executor.waiting.reshape(-1, 2).sum(axis=1)
    return [
        OperatorStatus(
            query=network.queries[network.wiring.query[position]].name,
            operator=network.name_of(int(order[position])),
            handled_per_s=float(flowing.handled_per_s[position]),
            selectivity=float(flowing.selectivity[position]),
            load=float(flowing.load[position]),
            priority=float(planning.plan.priority[position]),
            slice_us=int(planning.plan.slices_us[position]),
            waiting=int(waiting[position]),
        )
        for position in range(network.size)
    ]

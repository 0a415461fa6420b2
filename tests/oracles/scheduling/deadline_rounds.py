"""Ours: rounds as short as switching allows; much waiting is shed first, as long as all deadlines hold.

MultiFactor makes rounds as long as T allows. That saves switching, but results then wait for a whole round, and what
arrives meanwhile waits unshed. Of a given order two things cannot be had at once: no policy has results out earlier
than FIFO, none has fewer tuples waiting than Chain (but for one an operator). So each where it matters:

    little waits    short rounds: a few tuples go through all operators, as in FIFO, but with less switching
    much waits      what sheds most a second runs first, as in Chain, until what was taken in would come to be late

Symbols: T the deadline, n, S, V as in ``multifactor.py``, rho the sum of all loads, k operators, c what a switch takes.

    order       by (1 - S) n; a segment changes only if that saves 5 % of its work, so noise changes nothing
    round       R = 10 k c / max(1 - rho, 1 / 20), at most T / 2: switching takes at most a tenth of what the load
                leaves free, or half a percent of all. T / 2 as a tuple may wait for one round and be in the next
    slices      R shared out by load to the operators that take tuples in; the others clear all that these passed on
    shedding    while the work that waits is above T / 50, and all that was taken in fits into 3/4 T of its arrival

Cost: a plan O(k log k), a turn O(k).
Guarantee: what was taken in is done before its deadline if the costs measured hold; a tuple may be late by what it
waited before being taken in, when more arrives than can be handled.

Source: ours, from Dong et al., MultiFactor, and Babcock et al., Chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.scheduling.chain import envelope_slopes
from lakehouse.algorithms.scheduling.contract import LEFT, SECOND, Discipline
from lakehouse.algorithms.scheduling.flow import by_filtered, flow
from lakehouse.algorithms.scheduling.multifactor import priorities, round_of
from lakehouse.algorithms.scheduling.network import NOWHERE
from tests.oracles.scheduling.shedding_kernels import Shedding, SheddingPlan

if TYPE_CHECKING:
    from lakehouse.algorithms.scheduling.contract import Float64s, Int64s, Plan, Statistics
    from lakehouse.algorithms.scheduling.flow import Flow
    from lakehouse.algorithms.scheduling.network import Network

UNLIMITED_US = 2**60
ORDER_MARGIN = 0.05
SWITCHING_SHARE, LEAST_FREE = 0.1, 0.05
SHED_FROM_SHARE, BUDGET_SHARE = 0.02, 0.75


class DeadlineRounds:
    """Short rounds while little waits, shedding within the deadline while much does.

    ``sheds=False``: short rounds always, so that results are out as early as switching allows, whatever waits.
    """

    name = "DeadlineRounds"
    reorders = True

    def __init__(self, sheds: bool = True) -> None:
        self.sheds = sheds
        if not sheds:
            self.name = "ShortRounds"

    def plan(self, network: Network, measured: Statistics, before: Plan) -> SheddingPlan:
        """Return order, round, slices and shedding for the next interval."""
        order = by_margin(network, measured, before.order, ORDER_MARGIN)
        flowing = flow(network, measured, order)
        round_us = round_length_us(network, measured, flowing)
        return SheddingPlan(
            order=order,
            discipline=Discipline.ROUND,
            priority=envelope_slopes(network, measured, order),
            visits=round_of(network, priorities(network, measured, flowing)),
            slices_us=intake_slices_us(network, flowing, round_us),
            shedding=_shedding(network, flowing, round_us) if self.sheds else None,
        )


def by_margin(network: Network, measured: Statistics, before: Int64s, margin: float) -> Int64s:
    """Return the order by (1 - S) n; a segment keeps its own unless that saves more than this share of its work."""
    order, best = before.copy(), by_filtered(network, measured, before)
    for segment in network.segments:
        if work(measured, best[segment]) * (1.0 + margin) < work(measured, before[segment]):
            order[segment] = best[segment]
    return order


def work(measured: Statistics, operators: Int64s) -> float:
    """Return the seconds that one tuple takes on average through filters in this order."""
    passed = measured.selectivity[operators, LEFT]
    reaching = np.concatenate([[1.0], np.cumprod(passed)[:-1]])
    return float((reaching / measured.handled_per_s[operators, LEFT]).sum())


def _shedding(network: Network, flowing: Flow, round_us: float) -> Shedding:
    return Shedding(
        from_us=int(network.deadline_us * SHED_FROM_SHARE),
        budget_us=int(network.deadline_us * BUDGET_SHARE),
        stay_us=max(int(round_us / network.size), 1),
        remaining_us=remaining_us(network, flowing),
    )


def round_length_us(network: Network, measured: Statistics, flowing: Flow) -> float:
    """Return R: the shortest round in which switching takes at most its share of what the load leaves free."""
    free = max(1.0 - float(flowing.load.sum()), LEAST_FREE)
    return min(network.size * measured.switch_us / (SWITCHING_SHARE * free), network.deadline_us / 2)


def intake_slices_us(network: Network, flowing: Flow, round_us: float) -> Int64s:
    """Return slices for the operators that read streams; those of the others never end."""
    slices = round_us * flowing.load / max(float(flowing.load.sum()), 1e-9)
    reads = (network.wiring.stream.reshape(-1, 2) != NOWHERE).any(axis=1)
    return np.where(reads, np.maximum(slices.astype(np.int64), 1), UNLIMITED_US)


def remaining_us(network: Network, flowing: Flow) -> Float64s:
    """Return the work that a tuple still makes on average from each position to the end."""
    left = SECOND / flowing.handled_per_s
    for position in reversed(range(network.size)):
        if (queue := network.wiring.into[position]) != NOWHERE:
            left[position] += flowing.selectivity[position] * left[queue // 2]
    return left

"""Interval over which statistics are gathered before the next plan: tau, doubled while plans stay, halved at a change.

    |---- gather ----|- plan -|---- gather ----|- plan -|
    0             0.9 tau    tau

A plan is made at 90 % of an interval from that interval's statistics alone, and serves the next.

Reference: Dong et al., MultiFactor, section 3. Differs from the paper: tau has bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lakehouse.algorithms.scheduling.contract import MILLISECOND, Int64s, Plan, Statistics
from lakehouse.algorithms.scheduling.measuring import Counts, nothing_measured
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policy import Policy, first_plan


@dataclass(frozen=True)
class Interval:
    """Tau and how it changes: doubled after ``patience`` intervals with the same order, within the bounds.

    Raises ValueError: not 10 us <= least <= length <= most, or the patience is below 1.
    """

    length_us: int = 200 * MILLISECOND
    least_us: int = 100 * MILLISECOND
    most_us: int = 1600 * MILLISECOND
    patience: int = 3
    unchanged: int = 0

    def __post_init__(self) -> None:
        if not 10 <= self.least_us <= self.length_us <= self.most_us or self.patience < 1:
            raise ValueError(
                f"expected 10 us <= least <= length <= most and a patience from 1, found {self.least_us}, "
                f"{self.length_us}, {self.most_us}, {self.patience}"
            )

    @property
    def plan_us(self) -> int:
        """Return how far into the interval the next plan is made."""
        return self.length_us * 9 // 10

    def after(self, is_changed: bool) -> Interval:
        """Return the next interval, when the order for it is another one, or still the same."""
        if is_changed:
            return replace(self, length_us=max(self.length_us // 2, self.least_us), unchanged=0)
        if self.unchanged + 1 < self.patience:
            return replace(self, unchanged=self.unchanged + 1)
        return replace(self, length_us=min(self.length_us * 2, self.most_us), unchanged=0)


class Replanning:
    """The plan in force, and the next one when its time comes; callers pass the time, there is no clock.

    ``due_us``: when ``advance`` has something to do. ``counts``: what the caller counts into. ``changes``: how often
    the order changed. ``known``: what an earlier run showed; the first plan is made from it, and what the first
    intervals do not reach keeps it. Raises ValueError: what is known is of another network, or the policy moved an
    operator out of its segment.
    """

    def __init__(
        self,
        network: Network,
        policy: Policy,
        interval: Interval,
        start_us: int = 0,
        pool: Int64s | None = None,
        known: Statistics | None = None,
    ) -> None:
        self.network, self.policy, self.interval = network, policy, interval
        self.plan: Plan = first_plan(network)
        self.measured = nothing_measured(network)
        self.counts = Counts.zero(network, pool)
        self.changes = 0
        self._ended = Counts.zero(network, pool)
        if known is not None:
            _require_of(network, known)
            self.measured, self.plan = known, self._policy_plan(known)
        self._start_us = start_us
        self._next: Plan | None = None

    @property
    def due_us(self) -> int:
        """Return the time of the next planning, or of the next plan."""
        return self._start_us + (self.interval.plan_us if self._next is None else self.interval.length_us)

    def counted(self) -> Counts:
        """Return what was counted since the start, over all intervals."""
        whole = Counts.zero(self.network, self.counts.pool)
        whole.add(self._ended)
        whole.add(self.counts)
        return whole

    def advance(self, now_us: int) -> bool:
        """Plan once 90 % of the interval have passed; return whether it ended and a new plan is in force.

        Raises ValueError when the policy moved an operator out of its segment.
        """
        if self._next is None and now_us >= self.due_us:
            self._next = self._planned(now_us - self._start_us)
        if self._next is None or now_us < self.due_us:
            return False
        is_changed = not np.array_equal(self._next.order, self.plan.order)
        self.changes += is_changed
        self.plan, self._next = self._next, None
        self.interval, self._start_us = self.interval.after(is_changed), now_us
        self._ended.add(self.counts)
        self.counts.clear()
        return True

    def _planned(self, passed_us: int) -> Plan:
        if not self.counts.taken.any():
            return self.plan
        self.measured = self.counts.measured(passed_us, self.measured)
        return self._policy_plan(self.measured)

    def _policy_plan(self, measured: Statistics) -> Plan:
        planned = self.policy.plan(self.network, measured, self.plan)
        if not self.network.is_permuted(planned.order):
            raise ValueError(
                f"policy {self.policy.name}: expected an order within segments, found {planned.order.tolist()}"
            )
        return planned


def _require_of(network: Network, known: Statistics) -> None:
    shapes = known.handled_per_s.shape, known.selectivity.shape, known.arrived_per_s.shape
    wanted = (network.size, 2), (network.size, 2), (len(network.streams),)
    if shapes != wanted:
        raise ValueError(f"expected n, S and V of shapes {wanted}, found {shapes}")

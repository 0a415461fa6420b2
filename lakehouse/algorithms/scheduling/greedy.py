"""Greedy: always the operator that takes most tuples out of the system a second, (1 - S) n, of those with input.

The last operator's priority is n, as its output leaves the system: so Babcock et al. have it, and it is the stronger
baseline. The order is the written one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakehouse.algorithms.scheduling.contract import Discipline
from lakehouse.algorithms.scheduling.flow import drained_per_s, flow
from lakehouse.algorithms.scheduling.policy import first_plan

if TYPE_CHECKING:
    from lakehouse.algorithms.scheduling.contract import Plan, Statistics
    from lakehouse.algorithms.scheduling.network import Network


class Greedy:
    """The highest (1 - S) n first, each operator for itself."""

    name = "Greedy"
    reorders = False

    def plan(self, network: Network, measured: Statistics, before: Plan) -> Plan:
        """Return the written order with the priorities of the interval."""
        first = first_plan(network)
        flowing = flow(network, measured, first.order)
        return replace(first, discipline=Discipline.HIGHEST, priority=drained_per_s(network, flowing))

"""FIFO, the yardstick: the written order, each tuple through the whole chain before the next.

Nothing is measured or planned, so what it outputs is what the query says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.algorithms.scheduling.policy import first_plan

if TYPE_CHECKING:
    from lakehouse.algorithms.scheduling.contract import Plan, Statistics
    from lakehouse.algorithms.scheduling.network import Network


class Fifo:
    """Always the operator with the oldest tuple.

    Guarantee: in a given order, where a query reads each stream once, no policy has a result of it out earlier.
    """

    name = "FIFO"
    reorders = False

    def plan(self, network: Network, measured: Statistics, before: Plan) -> Plan:
        """Return the plan that every policy starts with."""
        return first_plan(network)

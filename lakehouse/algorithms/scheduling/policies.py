"""Every policy by the name that a configuration has for it, and the two plainest: FIFO and Greedy."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from lakehouse.algorithms.scheduling.chain import ChainScheduling
from lakehouse.algorithms.scheduling.contract import Discipline, Plan, Statistics
from lakehouse.algorithms.scheduling.flow import drained_per_s, flow
from lakehouse.algorithms.scheduling.multifactor import MultiFactor
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policy import Policy, first_plan


class Fifo:
    """The yardstick: always the operator with the oldest tuple, so each goes through the whole chain before the next.

    Nothing is measured or planned, so what it outputs is what the query says.

    Guarantee: in a given order, where a query reads each stream once, no policy has a result of it out earlier.
    """

    name = "FIFO"
    reorders = False

    def plan(self, network: Network, measured: Statistics, before: Plan) -> Plan:
        """Return the plan that every policy starts with."""
        return first_plan(network)


class Greedy:
    """Always the operator that takes most tuples out of the system a second, (1 - S) n, of those with input.

    The last operator's priority is n, as its output leaves the system: so Babcock et al. have it, and it is the
    stronger baseline. The order is the written one.
    """

    name = "Greedy"
    reorders = False

    def plan(self, network: Network, measured: Statistics, before: Plan) -> Plan:
        """Return the written order with the priorities of the interval."""
        first = first_plan(network)
        flowing = flow(network, measured, first.order)
        return replace(first, discipline=Discipline.HIGHEST, priority=drained_per_s(network, flowing))


DEFAULT = "multifactor"
POLICIES: Mapping[str, Callable[[], Policy]] = {
    "fifo": Fifo,
    "greedy": Greedy,
    "chain": ChainScheduling,
    "multifactor": MultiFactor,
}

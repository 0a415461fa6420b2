"""The contract of scheduling policies: what makes the plan of the next interval, and the plan that all start with."""

from typing import Protocol

import numpy as np

from lakehouse.algorithms.scheduling.contract import Discipline, Plan, Statistics
from lakehouse.algorithms.scheduling.network import Network


class Policy(Protocol):
    """Makes the plan of the next interval from what the last one showed.

    Laws of all policies: each query's results are those of the written order, and leave in the same order.
    ``reorders``: whether it ever lets operators of a segment change places.
    """

    name: str
    reorders: bool

    def plan(self, network: Network, measured: Statistics, before: Plan) -> Plan:
        """Return the plan for the next interval; ``before`` is the one in force."""


def first_plan(network: Network) -> Plan:
    """Return what every policy starts with, when nothing is known yet: the written order, oldest tuple first."""
    return Plan(
        order=np.arange(network.size),
        discipline=Discipline.OLDEST,
        priority=np.zeros(network.size),
        visits=np.arange(network.size),
        slices_us=np.ones(network.size, np.int64),
    )

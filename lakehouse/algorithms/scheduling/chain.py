r"""Chain scheduling: operators grouped so that a slow one before a selective one is not starved.

A tuple's progress chart has the work done on it on one axis and the share of it that is left on the other. Its lower
envelope joins the operators that together shed fastest; each has the slope of its piece as priority.

    1 |*                 operator 1 alone sheds slowly, 1 and 2 together fast:
      |  *  1            both have the slope of the straight line over them
      |    *
      |      \ 2
      |       *---* 3
    0 +------------->  work

The order is the written one. Guarantee: for one chain and constant costs and selectivities, never more than one tuple
per operator above the least possible (the paper's Theorem for a single stream).

Reference: Babcock, Babu, Datar, Motwani, Chain: operator scheduling for memory minimization in data stream systems,
2003. Differs from the paper: where several streams have met, a position's slope is the mean of theirs by flow.
"""

from dataclasses import replace

import numpy as np

from lakehouse.algorithms.scheduling.contract import Discipline, Float64s, Int64s, Plan, Statistics
from lakehouse.algorithms.scheduling.flow import flow
from lakehouse.algorithms.scheduling.network import NOWHERE, Network
from lakehouse.algorithms.scheduling.policy import first_plan


class ChainScheduling:
    """The steepest piece of the progress charts first."""

    name = "Chain"
    reorders = False

    def plan(self, network: Network, measured: Statistics, before: Plan) -> Plan:
        """Return the written order with the slopes of the interval as priorities."""
        first = first_plan(network)
        slopes = envelope_slopes(network, measured, first.order)
        return replace(first, discipline=Discipline.HIGHEST, priority=slopes)


def envelope_slopes(network: Network, measured: Statistics, order: Int64s) -> Float64s:
    """Return by position how many tuples a second its piece of the envelope sheds."""
    flowing = flow(network, measured, order)
    weighed, weights = np.zeros(network.size), np.zeros(network.size)
    for query in range(len(network.queries)):
        for queue in network.leaves(query):
            path, sides = _path(network, int(queue))
            costs = 1.0 / measured.handled_per_s[order[path], sides]
            slopes = chart_slopes(costs, measured.selectivity[order[path], sides])
            weight = max(float(flowing.into_per_s.ravel()[queue]), 1e-9)
            weighed[path] += weight * slopes
            weights[path] += weight
    return weighed / weights


def chart_slopes(seconds: Float64s, passed: Float64s) -> Float64s:
    """Return each operator's slope, in tuples a second, of the lower envelope of a chain's progress chart.

    ``seconds``: what each operator takes for a tuple. ``passed``: S of each; that of the last counts as 0.
    """
    left = np.concatenate([[1.0], np.cumprod(passed[:-1]), [0.0]])
    done = np.concatenate([[0.0], np.cumsum(left[:-1] * seconds)])
    slopes, at = np.zeros(len(seconds)), 0
    while at < len(seconds):
        steepest = (left[at] - left[at + 1 :]) / (done[at + 1 :] - done[at])
        # The farthest of equals: one straight line is one piece.
        end = len(seconds) - int(np.argmax(steepest[::-1]))
        slopes[at:end], at = steepest.max(), end
    return slopes


def _path(network: Network, queue: int) -> tuple[Int64s, Int64s]:
    """Return the positions from a queue to the end of its query, and the side that each is entered by."""
    queues = []
    while queue != NOWHERE:
        queues.append(queue)
        queue = int(network.wiring.into[queue // 2])
    return np.array(queues) // 2, np.array(queues) % 2

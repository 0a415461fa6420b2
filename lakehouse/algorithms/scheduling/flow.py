"""Tuples through an order: how many reach each position, how much work that is, what a join counts as; the best order.

    S_join = (V_R S_(S) + V_S S_(R)) / (V_R + V_S)
    n_join = n_R n_S (V_R + V_S) / (V_R n_S + V_S n_R)

with S_(S) the results of one tuple of R in S's window, n_R the tuples of R that the join handles a second. V_R and V_S
are what reaches the join, so that joins nest: an inner join's results are an outer one's V.

Reference: Dong et al., MultiFactor, section 2.2.2.
"""

from dataclasses import dataclass

import numpy as np

from lakehouse.algorithms.scheduling.contract import LEFT, Float64s, Int64s, Statistics
from lakehouse.algorithms.scheduling.network import NOWHERE, Network


@dataclass(frozen=True)
class Flow:
    """Rates through each position. ``into_per_s`` is positions x sides, the others are by position.

    ``handled_per_s`` and ``selectivity`` are n and S, those of a join over both sides. ``load`` is the share of the
    machine's time that the position needs; above 1 in sum, the machine falls behind.
    """

    into_per_s: Float64s
    handled_per_s: Float64s
    selectivity: Float64s
    load: Float64s


def join_selectivity(left_per_s: float, right_per_s: float, left: float, right: float) -> float:
    """Return S_join from the rates of both sides and the results of one tuple of each; 1 and 1 if nothing flows."""
    if left_per_s + right_per_s == 0:
        left_per_s = right_per_s = 1.0
    return (left_per_s * left + right_per_s * right) / (left_per_s + right_per_s)


def join_handled(left_per_s: float, right_per_s: float, left: float, right: float) -> float:
    """Return n_join from the rates of both sides and how many tuples of each are handled a second."""
    if left_per_s + right_per_s == 0:
        left_per_s = right_per_s = 1.0
    return left * right * (left_per_s + right_per_s) / (left_per_s * right + right_per_s * left)


def flow(network: Network, measured: Statistics, order: Int64s) -> Flow:
    """Return the flow when the operators stand in this order. Cost: O(positions)."""
    wiring = network.wiring
    into = np.where(wiring.stream == NOWHERE, 0.0, measured.arrived_per_s[wiring.stream])
    handled, passed = measured.handled_per_s[order], measured.selectivity[order]
    n, s = handled[:, LEFT].copy(), passed[:, LEFT].copy()
    for position in range(network.size):
        both = into[2 * position : 2 * position + 2]
        if wiring.is_join[position]:
            n[position] = join_handled(*both, *handled[position])
            s[position] = join_selectivity(*both, *passed[position])
        if wiring.into[position] != NOWHERE:
            into[wiring.into[position]] += both.sum() * s[position]
    into = into.reshape(-1, 2)
    return Flow(into, n, s, into.sum(axis=1) / n)


def drained_per_s(network: Network, flowing: Flow) -> Float64s:
    """Return the tuples that each position takes out of the system a second: (1 - S) n, n at the end of a query.

    What leaves the last operator is no longer in the system.
    """
    is_last = network.wiring.into == NOWHERE
    return np.where(is_last, 1.0, 1.0 - flowing.selectivity) * flowing.handled_per_s


def filtered_per_s(measured: Statistics) -> Float64s:
    """Return (1 - S) n of each operator that reads one input."""
    filtered: Float64s = (1.0 - measured.selectivity[:, LEFT]) * measured.handled_per_s[:, LEFT]
    return filtered


def by_filtered(network: Network, measured: Statistics, before: Int64s) -> Int64s:
    """Return the order by (1 - S) n, descending inside each segment; equals stay in the written order.

    For filters whose verdicts do not depend on each other this order makes the least work, whatever V is.
    """
    order, rank = before.copy(), filtered_per_s(measured)
    for segment in network.segments:
        written = np.sort(before[segment])
        order[segment] = written[np.argsort(-rank[written], kind="stable")]
    return order

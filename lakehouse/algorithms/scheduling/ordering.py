"""Which order commuting filters stand in: most tuples filtered out a second first, by (1 - S) n.

For filters whose verdicts do not depend on each other this order makes the least work, whatever V is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.scheduling.contract import LEFT

if TYPE_CHECKING:
    from lakehouse.algorithms.scheduling.contract import Float64s, Int64s, Statistics
    from lakehouse.algorithms.scheduling.network import Network


def filtered_per_s(measured: Statistics) -> Float64s:
    """Return (1 - S) n of each operator that reads one input."""
    filtered: Float64s = (1.0 - measured.selectivity[:, LEFT]) * measured.handled_per_s[:, LEFT]
    return filtered


def by_filtered(network: Network, measured: Statistics, before: Int64s, margin: float = 0.0) -> Int64s:
    """Return the order by (1 - S) n, descending inside each segment; equals stay in the written order.

    With a margin, a segment keeps its order ``before`` unless the new one makes less work by more than that share.
    """
    order, rank = before.copy(), filtered_per_s(measured)
    for segment in network.segments:
        old = before[segment]
        new = np.sort(old)[np.argsort(-rank[np.sort(old)], kind="stable")]
        if work(measured, new) * (1.0 + margin) < work(measured, old) or margin == 0.0:
            order[segment] = new
    return order


def work(measured: Statistics, operators: Int64s) -> float:
    """Return the seconds that one tuple takes on average through filters in this order."""
    passed = measured.selectivity[operators, LEFT]
    reaching = np.concatenate([[1.0], np.cumprod(passed)[:-1]])
    return float((reaching / measured.handled_per_s[operators, LEFT]).sum())

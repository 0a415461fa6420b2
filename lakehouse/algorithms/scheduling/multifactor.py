"""MultiFactor: the order of filters by what they take out, turns in rounds, slices from the deadline.

Symbols: n_i tuples that operator i handles a second, S_i the share it passes, V arrivals a second, T the deadline.

    priority    first on its stream (1 - S_1) n_1; in the middle (1 - S_i) n_i - V; last n_k - V
                two streams: (1 - S_1) n_1 - V_S; (1 - S_2) n_2 - V_R; last n_3 - V_R - V_S                 (1)-(6)
                in general: tuples taken out a second, less the arrivals of all streams of the query that the
                operator does not read itself
    slice       t_1 = T / (1 + n_1 S_1 / n_2 + n_1 S_1 S_2 / n_3 + ...), t_2 = t_1 S_1 n_1 / n_2, ...            (7)
                in general: T shared out by load, for each operator clears what those before it produced
                when V < n_1 fills less than t_1: what V T tuples need, so all slices shrink with the load
    round       operators by priority, none before those that feed it; one whose queue is empty gives way at once

Cost: a plan O(k log k) in the operators, a turn O(1).
Guarantee: in a round every operator gets the time that what came in a round needs, if the load allows; a tuple may
wait one round for its own, so a result may take up to 2 T.

Reference: Dong, Lu, Song, MultiFactor, sections 2 and 3. Differs from the paper: (7) prints t_i for t_1. Filters that
commute are ordered by (1 - S) n alone: what the priorities add to it, -V and the last one's n, belongs to the place and
not to the filter, and sorting by it never settles (its tests show one). With several queries, T is the least.
"""

import numpy as np

from lakehouse.algorithms.scheduling.contract import Discipline, Float64s, Int64s, Plan, Statistics
from lakehouse.algorithms.scheduling.flow import Flow, by_filtered, drained_per_s, flow
from lakehouse.algorithms.scheduling.network import NOWHERE, Network


class MultiFactor:
    """Rounds of unequal slices over the order that the last interval showed to be best."""

    name = "MultiFactor"
    reorders = True

    def plan(self, network: Network, measured: Statistics, before: Plan) -> Plan:
        """Return order, round and slices for the next interval."""
        order = by_filtered(network, measured, before.order)
        flowing = flow(network, measured, order)
        priority = priorities(network, measured, flowing)
        return Plan(
            order=order,
            discipline=Discipline.ROUND,
            priority=priority,
            visits=round_of(network, priority),
            slices_us=slices_us(flowing, network.deadline_us),
        )


def priorities(network: Network, measured: Statistics, flowing: Flow) -> Float64s:
    """Return by position the tuples taken out of the system a second while it runs, (1) to (6)."""
    wiring = network.wiring
    arriving = np.where(wiring.stream == NOWHERE, 0.0, measured.arrived_per_s[wiring.stream])
    own = arriving.reshape(-1, 2).sum(axis=1)
    of_query = np.bincount(wiring.query, weights=own)
    priority: Float64s = drained_per_s(network, flowing) - (of_query[wiring.query] - own)
    return priority


def slices_us(flowing: Flow, round_us: float) -> Int64s:
    """Return by position how long a turn lasts when a round lasts this long at most, (7).

    A round is shorter where less arrives than could be handled. At least 1 us, so that nothing starves.
    """
    slices = round_us * flowing.load / max(float(flowing.load.sum()), 1.0)
    return np.maximum(slices.astype(np.int64), 1)


def round_of(network: Network, priority: Float64s) -> Int64s:
    """Return the positions by descending priority, none before those that feed it."""
    into = network.wiring.into
    feeding = np.bincount(into[into != NOWHERE] // 2, minlength=network.size)
    visits: list[int] = []
    ready = {int(position) for position in np.flatnonzero(feeding == 0)}
    while ready:
        best = max(ready, key=lambda position: (priority[position], -position))
        ready.remove(best)
        visits.append(best)
        if (queue := int(into[best])) != NOWHERE:
            feeding[queue // 2] -= 1
            if not feeding[queue // 2]:
                ready.add(queue // 2)
    return np.array(visits, np.int64)

"""Distance of SMJH from the optimum, and the time to choose an order, up to 20 sites.

Trips of one block whose 20 entries pass the filter: a row of each, 1 + Poisson(m) rows at each stop; costs of 1 to 10.
The smaller m, the less rows grow on their way: with m near 0 an order is a shortest path through all sites, the hardest
case for a heuristic. Milliseconds are of processor time, medians, flat rows.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from lakehouse.algorithms.multiway_join.contract import Ordering, Query, Sites, Trip
from lakehouse.algorithms.multiway_join.cost import legs_of, route_cost, sizes_of
from lakehouse.algorithms.multiway_join.exhaustive import Smje
from lakehouse.algorithms.multiway_join.heuristic import Smjh
from tests.benchmarks import page
from tests.benchmarks.multiway_join.run import Estimate, estimate
from tests.benchmarks.multiway_join.streams import costs

SITES = (6, 8, 10, 12, 15, 18, 20)
GROWTHS = (0.03, 0.3, 1.0, 3.0)
WIDTHS = (1, 16, 64)
TRIPS = 200
ENTRIES = 20


def figures(quick: bool) -> dict[str, Any]:
    """Return the mean gap of SMJH by sites and growth, and milliseconds by sites."""
    Smje().choose(_trip(3, 1.0, 0))
    Smjh().choose(_trip(3, 1.0, 0))
    found = {
        n: {growth: _gaps(n, growth, 2 if quick else _trips(n)) for growth in GROWTHS}
        for n in (SITES[1::5] if quick else SITES)
    }
    took = {n: _milliseconds(n, 3 if quick else 15) for n in (*SITES[:-1:3], SITES[-1])}
    if not quick:
        _write(found, took)
    return {
        "heuristic_gap_of_trips": {
            f"{n}_{growth:g}": round(gaps[WIDTHS[-1]].mean, 5)
            for n, by_growth in found.items()
            for growth, gaps in by_growth.items()
        },
        "plan_ms": {str(n): each for n, each in took.items()},
        "plan_ms_20_sites": took[20],
    }


def _trips(sites: int) -> int:
    return TRIPS if sites < 18 else TRIPS // 4


def _trip(sites: int, growth: float, seed: int) -> Trip:
    rng = np.random.default_rng([sites, round(100 * growth), seed])
    names = [f"site {number}" for number in range(sites)]
    query = Query(Sites.of(names, costs(rng, sites)), (None,) * sites)
    stored = (1 + rng.poisson(growth, (sites - 1, ENTRIES))).astype(np.float64)
    return Trip(0, legs_of(query, 0), np.ones(ENTRIES), stored)


def _gaps(sites: int, growth: float, trips: int) -> dict[int, Estimate]:
    """Return, by the number of routes kept, by how much SMJH's order is above the optimum."""
    gaps: dict[int, list[float]] = {width: [] for width in WIDTHS}
    for seed in range(trips):
        trip = _trip(sites, growth, seed)
        least = _cost(trip, Smje())
        for width, found in gaps.items():
            found.append(_cost(trip, Smjh(width)) / least - 1)
    return {width: estimate(found) for width, found in gaps.items()}


def _cost(trip: Trip, ordering: Ordering) -> float:
    order = ordering.choose(trip)
    return route_cost(trip.legs, order, sizes_of(trip, order))


def _milliseconds(sites: int, rounds: int) -> dict[str, float]:
    found = {}
    for name, ordering in (("SMJE", Smje()), ("SMJH", Smjh())):
        taken = []
        for seed in range(rounds):
            trip = _trip(sites, 1.0, seed)
            started = time.process_time()
            ordering.choose(trip)
            taken.append(1000 * (time.process_time() - started))
        found[name] = round(float(np.median(taken)), 3)
    return found


def _write(found: dict[int, dict[float, dict[int, Estimate]]], took: dict[int, dict[str, float]]) -> None:
    heads = ["sites", "routes kept", *(f"m = {growth:g}" for growth in GROWTHS)]
    rows = [
        [n, width, *(_percent(by_growth[growth][width]) for growth in GROWTHS)]
        for n, by_growth in found.items()
        for width in WIDTHS
    ]
    page.write(
        "multiway_join",
        "orders",
        "Choosing an order",
        __doc__ or "",
        "## SMJH above the optimum",
        f"Mean and its 95 % interval over {TRIPS} trips, {TRIPS // 4} from 18 sites on; 64 routes are kept by default.",
        page.table(heads, rows),
        "## Milliseconds",
        page.table(["sites", "SMJE", "SMJH"], [[n, each["SMJE"], each["SMJH"]] for n, each in took.items()]),
    )


def _percent(gap: Estimate) -> str:
    return f"{100 * gap.mean:.2f} ± {100 * gap.half:.2f} %"

"""Streams that the paper leaves out, who asks, and what each part of ours is worth: 5 sites, a window of 3 intervals.

Costs as a share of Lottery's on the same stream, means of each seed's own ratio with 95 % intervals. The rows below the
streams are of the paper's stream: asked by the first site, and SMJE with other prices and parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lakehouse.algorithms.multiway_join.contract import Cost, Sending
from lakehouse.algorithms.multiway_join.exhaustive import Smje
from tests.benchmarks import page
from tests.benchmarks.multiway_join.run import (
    LOTTERY,
    METHODS,
    Estimate,
    Method,
    costs_over_time,
    estimate,
    runs,
    total,
)
from tests.benchmarks.multiway_join.streams import PLAIN, STREAMS, WINDOW

SITES, SEEDS = 5, 200
AS_THE_PAPER = Sending()
SENDINGS = {
    "as in the paper": AS_THE_PAPER,
    "compact messages": replace(AS_THE_PAPER, is_compact=True),
    "factorised rows": replace(AS_THE_PAPER, is_factorised=True),
    "both (ours)": replace(AS_THE_PAPER, is_factorised=True, is_compact=True),
    "no filter": replace(AS_THE_PAPER, filters=False),
    "an entry at 1/8 of a row": replace(AS_THE_PAPER, entry=1 / 8),
    "an entry at 1/2 of a row": replace(AS_THE_PAPER, entry=1 / 2),
    "a site's name at 1/4 of a row": replace(AS_THE_PAPER, hop=1 / 4),
}


def figures(quick: bool) -> dict[str, Any]:
    """Return cost as a share of Lottery's by stream and method, and by what SMJE sends."""
    seeds = 2 if quick else SEEDS
    streams = {name: _ratios(runs(name, SITES, WINDOW, seeds)) for name in STREAMS}
    streams[f"{PLAIN}, asked by a site"] = _ratios(runs(PLAIN, SITES, WINDOW, seeds, asker=True))
    sendings = {window: _ratios(_sendings(window, seeds)) for window in (WINDOW, None)}
    if not quick:
        _write(streams, sendings)
    return {
        "scenario_ratio_to_lottery": {
            stream: {name: round(ratio.mean, 4) for name, ratio in ratios.items()}
            for stream, ratios in streams.items()
        },
        "sending_ratio_to_lottery": {name: round(ratio.mean, 4) for name, ratio in sendings[WINDOW].items()},
    }


def _sendings(window: int | None, seeds: int) -> dict[str, list[list[Cost]]]:
    """Return the cost of each seed's intervals by what SMJE sends, and Lottery's."""
    methods: dict[str, Method] = {name: (lambda sites: Smje(), sending) for name, sending in SENDINGS.items()}
    found: dict[str, list[list[Cost]]] = {name: [] for name in methods}
    for seed in range(seeds):
        made = STREAMS[PLAIN](np.random.default_rng([SITES, seed]), SITES)
        for name, costs in costs_over_time(made, window, methods).items():
            found[name].append(costs)
    return found | {LOTTERY: runs(PLAIN, SITES, window, seeds)[LOTTERY]}


def _ratios(costs: dict[str, list[list[Cost]]]) -> dict[str, Estimate]:
    """Return each method's cost as a share of Lottery's."""
    totals = {name: np.array([total(each).total for each in by_seed]) for name, by_seed in costs.items()}
    return {name: estimate(each / totals[LOTTERY]) for name, each in totals.items() if name != LOTTERY}


def _write(streams: dict[str, dict[str, Estimate]], sendings: dict[int | None, dict[str, Estimate]]) -> None:
    names = [name for name in METHODS if name != LOTTERY]
    page.write(
        "multiway_join",
        "scenarios",
        "Other streams, other prices",
        __doc__ or "",
        f"{SEEDS} seeds.",
        "## Streams",
        page.table(["stream", *names], [[stream, *ratios.values()] for stream, ratios in streams.items()]),
        "## What SMJE sends",
        page.table(
            ["", f"window of {WINDOW}", "no window"],
            [[name, sendings[WINDOW][name], sendings[None][name]] for name in SENDINGS],
        ),
    )

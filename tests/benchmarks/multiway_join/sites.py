"""The paper's figure 1: cost by the number of sites, with a window of 3 intervals and without.

Costs are per interval, of all sites together, messages included: rows times what a row costs on its way, an entry of a
vector at 1/4 of a row. Means over seeds with their 95 % intervals; a ratio is the mean of each seed's own. *ours* is
SMJE with factorised rows and compact messages; the others send what the paper sends. Nobody asks: results stay where
they arise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakehouse.algorithms.multiway_join.contract import Cost
from tests.benchmarks import page
from tests.benchmarks.multiway_join.run import (
    LOTTERY,
    METHODS,
    OURS,
    SMJE,
    SMJH,
    Estimate,
    estimate,
    runs,
    total,
)
from tests.benchmarks.multiway_join.streams import INTERVALS, PLAIN, WINDOW

SITES = (2, 3, 4, 5, 6, 7, 8)
SEEDS = 200
WINDOWS: dict[str, int | None] = {"w3": WINDOW, "none": None}
PAPER = {"w3": {SMJH: "0.3 to 0.5", SMJE: "0.15 to 0.4"}, "none": {SMJH: "0.6 to 0.8", SMJE: "0.4 to 0.6"}}
Costs = dict[str, list[Cost]]


def figures(quick: bool) -> dict[str, Any]:
    """Return, by window, sites and method, cost as a share of Lottery's, and how far SMJH is above SMJE."""
    seeds, sites = (2, (3, 5)) if quick else (SEEDS, SITES)
    found = {window: {n: _costs(n, WINDOWS[window], seeds) for n in sites} for window in WINDOWS}
    if not quick:
        _write(found)
    return {
        "cost_ratio_to_lottery": {
            f"{name}_{n}_{window}": round(_ratio(costs, name).mean, 4)
            for window, by_sites in found.items()
            for n, costs in by_sites.items()
            for name in METHODS
            if name != LOTTERY
        },
        "heuristic_gap": {
            f"{n}_{window}": round(_gap(costs), 5)
            for window, by_sites in found.items()
            for n, costs in by_sites.items()
        },
    }


def _costs(sites: int, window: int | None, seeds: int) -> Costs:
    """Return the cost of a whole run, per method one for each seed."""
    return {
        name: [total(each) for each in costs] for name, costs in runs(PLAIN, sites, window, seeds).items()
    }


def _ratio(costs: Costs, name: str) -> Estimate:
    return estimate([one.total / other.total for one, other in zip(costs[name], costs[LOTTERY], strict=True)])


def _gap(costs: Costs) -> float:
    gaps = [
        one.data / other.data - 1 for one, other in zip(costs[SMJH], costs[SMJE], strict=True) if other.data
    ]
    return float(np.mean(gaps))


def _write(found: dict[str, dict[int, Costs]]) -> None:
    parts = [__doc__ or "", f"{SEEDS} seeds, {INTERVALS} intervals."]
    for window, by_sites in found.items():
        title = f"Window of {WINDOW} intervals" if window == "w3" else "No window"
        heads = ["sites", *METHODS]
        per_interval = [
            [n, *(estimate([cost.total / INTERVALS for cost in costs[name]]) for name in METHODS)]
            for n, costs in by_sites.items()
        ]
        ratios = [
            [n, *(_ratio(costs, name) for name in METHODS if name != LOTTERY)]
            for n, costs in by_sites.items()
        ]
        reported = [PAPER[window].get(name, "") for name in METHODS if name != LOTTERY]
        parts += [f"## {title}", "Cost per interval:", page.table(heads, per_interval)]
        parts += [
            "As a share of Lottery's; the paper reports no numbers of sites:",
            page.table(
                ["sites", *(name for name in METHODS if name != LOTTERY)], [*ratios, ["the paper", *reported]]
            ),
            _picture(window, title, by_sites),
            "What the cost of SMJE and ours is made of, shares:",
            page.table(["sites", "method", "rows", "vectors", "filters", "orders"], _shares(by_sites)),
        ]
    gaps = [[n, *(f"{100 * _gap(found[window][n]):.3f} %" for window in WINDOWS)] for n in SITES]
    parts += [
        "## SMJH above the optimum",
        "Rows moved, without messages, mean over seeds; larger numbers of sites are in [orders](orders.md).",
        page.table(["sites", f"window of {WINDOW}", "no window"], gaps),
    ]
    page.write("multiway_join", "sites", "Cost by number of sites", *parts)


def _shares(by_sites: dict[int, Costs]) -> list[list[Any]]:
    rows = []
    for n, costs in by_sites.items():
        for name in (SMJE, OURS):
            whole = total(costs[name])
            parts = whole.data, whole.synopsis, whole.filter, whole.order
            rows.append([n, name, *(part / whole.total for part in parts)])
    return rows


def _picture(window: str, title: str, by_sites: dict[int, Costs]) -> str:
    figure, axes = page.picture(f"sites-{window}")
    for name in METHODS:
        means = [estimate([cost.total / INTERVALS for cost in costs[name]]) for costs in by_sites.values()]
        axes.errorbar(
            list(by_sites), [each.mean for each in means], [each.half for each in means], fmt="o-", label=name
        )
    axes.set(xlabel="sites", ylabel="cost per interval", title=title, yscale="log")
    axes.legend()
    return page.save(figure, "multiway_join", f"sites-{window}")

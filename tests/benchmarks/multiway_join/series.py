"""The paper's figure 2: cost of each interval as time goes on, 5 sites; means over seeds.

Without windows stored rows grow for ever, and with them what a block is joined with; with windows cost levels off when
the first rows expire.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks import page
from tests.benchmarks.multiway_join.run import LOTTERY, METHODS, estimate, runs
from tests.benchmarks.multiway_join.streams import INTERVALS, PLAIN, WINDOW

SITES, SEEDS = 5, 200
SHOWN = (0, 1, 2, 3, 4, 5, 9, 14, 19, 24, 29)


def figures(quick: bool) -> dict[str, Any]:
    """Return the cost of the last interval as a share of Lottery's, by method and window."""
    seeds = 8 if quick else SEEDS
    found = {"w3": _series(WINDOW, seeds), "none": _series(None, seeds)}
    if not quick:
        _write(found)
    return {
        "last_interval_ratio_to_lottery": {
            f"{name}_{window}": round(float(costs[name][:, -1].mean() / costs[LOTTERY][:, -1].mean()), 4)
            for window, costs in found.items()
            for name in METHODS
            if name != LOTTERY
        }
    }


def _series(window: int | None, seeds: int) -> dict[str, Any]:
    """Return costs by method, seeds x intervals."""
    return {
        name: np.array([[cost.total for cost in costs] for costs in by_seed])
        for name, by_seed in runs(PLAIN, SITES, window, seeds).items()
    }


def _write(found: dict[str, dict[str, Any]]) -> None:
    parts = [__doc__ or "", f"{SEEDS} seeds, {INTERVALS} intervals."]
    for window, costs in found.items():
        title = f"Window of {WINDOW} intervals" if window == "w3" else "No window"
        rows = [[at, *(estimate(costs[name][:, at]) for name in METHODS)] for at in SHOWN]
        figure, axes = page.picture(f"series-{window}")
        for name in METHODS:
            axes.plot(range(INTERVALS), costs[name].mean(axis=0), label=name)
        axes.set(xlabel="interval", ylabel="cost", title=title, yscale="linear" if window == "w3" else "log")
        axes.legend()
        shown = page.save(figure, "multiway_join", f"series-{window}")
        parts += [f"## {title}", page.table(["interval", *METHODS], rows), shown]
    page.write("multiway_join", "series", "Cost as time goes on", *parts)

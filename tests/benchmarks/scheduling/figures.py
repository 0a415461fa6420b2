"""The paper's four figures: tuples in the system and delay over time, one stream and two, T = 600 ms.

FIFO, Greedy and Chain keep the written order; MultiFactor and DeadlineRounds (ours) order the filters by what they
measured. Every run puts out the same results in the same order. Delay is a result's: from the arrival of the tuple
that made it until it leaves. All start alike: until the first interval has been measured, oldest tuple first.

Where MultiFactor is not lowest it is in bursts: its rounds are as long as T allows, and a result waits for its round.
DeadlineRounds makes them as short as switching allows and sheds what waits in a burst instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.benchmarks import page
from tests.benchmarks.scheduling.run import (
    BASELINES,
    HEADS,
    METRICS,
    OURS,
    POLICIES,
    Run,
    beaten,
    runs,
    table_rows,
)
from tests.benchmarks.scheduling.scenarios import LENGTH_S, SCENARIOS, Scenario
from tests.benchmarks.scheduling.scenarios import __doc__ as SETTING

SEED, SEEDS = 1, range(1, 11)
BIN_S = 0.5


def figures(quick: bool) -> dict[str, Any]:
    """Return each metric by scenario and policy, and where the paper's policy or ours is not lowest or equal."""
    length_s = 8.0 if quick else LENGTH_S
    found: dict[str, Any] = {metric: {} for metric in METRICS}
    found["not_lowest"] = {name: {} for name in OURS}
    parts = [__doc__ or "", SETTING or ""]
    for make in SCENARIOS:
        scenario = make(SEED, length_s)
        each = runs(scenario)
        for metric in METRICS:
            found[metric][scenario.name] = {name: one.figures[metric] for name, one in each.items()}
        for name in OURS:
            if worse := beaten(each, name):
                found["not_lowest"][name][scenario.name] = worse
        if not quick:
            parts += [f"## {scenario.name}", told(scenario), page.table(HEADS, table_rows(each))]
            parts += [_picture(scenario, each, "tuples"), _picture(scenario, each, "delay")]
    if not quick:
        found["lowest_of_10_runs"] = _often()
        page.write("scheduling", "figures", "Tuples in the system and delay", *parts, *_told(found))
    return found


def told(scenario: Scenario) -> str:
    """Return a scenario in words, with its loads."""
    written, best = scenario.loads()
    return f"{scenario.told}. Load {written:.2f} as written, {best:.2f} at best."


def _often() -> dict[str, dict[str, dict[str, int]]]:
    """Return in how many of ten runs, each with arrivals and verdicts of its own, ours was lowest or equal."""
    often: dict[str, dict[str, dict[str, int]]] = {name: {} for name in OURS}
    for make in SCENARIOS:
        worse = []
        for seed in SEEDS:
            scenario = make(seed, LENGTH_S)
            each = runs(scenario)
            worse.append({name: beaten(each, name) for name in OURS})
        for name in OURS:
            counts = {metric: sum(metric not in one[name] for one in worse) for metric in METRICS}
            often[name][scenario.name] = counts
    return often


def _told(found: Mapping[str, Any]) -> list[str]:
    rows = [
        [name, scenario, *counts.values()]
        for name, scenarios in found["lowest_of_10_runs"].items()
        for scenario, counts in scenarios.items()
    ]
    heads = ["policy", "scenario", *METRICS]
    often = f"Lowest, or equal to the lowest, of {', '.join(BASELINES)}: in how many of ten runs with other seeds."
    lost_heads = ["policy", "scenario", "metric", "lower is", "at", "ours"]
    lost = [
        [name, scenario, metric, *worse]
        for name, scenarios in found["not_lowest"].items()
        for scenario, by_metric in scenarios.items()
        for metric, worse in by_metric.items()
    ]
    where = ["## Where a baseline is lower", page.table(lost_heads, lost)]
    return [*where, "## How often", often, page.table(heads, rows)]


def _picture(scenario: Scenario, found: Mapping[str, Run], what: str) -> str:
    name = f"{what}-{scenario.name}".replace(",", "").replace(" ", "-")
    figure, axes = page.picture(name)
    for policy in POLICIES:
        times, values = (_tuples if what == "tuples" else _delay)(scenario, found[policy])
        axes.plot(times, values, label=policy, linewidth=1.2)
    label = "tuples in the system" if what == "tuples" else "mean delay of results, ms"
    axes.set(xlabel="s", ylabel=label, title=scenario.name, yscale="symlog")
    axes.set_ylim(bottom=0)
    axes.legend()
    return page.save(figure, "scheduling", name)


def _tuples(scenario: Scenario, one: Run) -> tuple[Any, Any]:
    """Return the mean of the samples of each bin."""
    samples, width = one.outcome.in_system, round(BIN_S * 1e6 / one.outcome.sample_us)
    bins = len(samples) // width
    return np.arange(bins) * BIN_S, samples[: bins * width].reshape(bins, width).mean(axis=1)


def _delay(scenario: Scenario, one: Run) -> tuple[Any, Any]:
    """Return the mean delay of the results of each bin's arrivals."""
    bins = (scenario.workload.at_us[one.outcome.number] // round(BIN_S * 1e6)).astype(np.int64)
    count = np.bincount(bins)
    total = np.bincount(bins, weights=one.outcome.delay_us / 1000)
    at = np.flatnonzero(count)
    return at * BIN_S, total[at] / count[at]

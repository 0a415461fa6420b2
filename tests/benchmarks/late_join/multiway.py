"""Joins of three streams with a recall, in batches of 20 rows, on the sets of ``real``: their sources in three parts.

A batch finds what its slack reaches; every hundredth batch is repaired, which tells the policy what was missed. Beside
the policy: no slack, the least slack that never changes with which every period meets the recall, known in hindsight,
and the lateness of the latest row. *Held* are the rows of windows and slack before a batch; the *wait* is that of all
results, 0 of those found at once, else the stream time until the repair. Sets that are absent are skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakehouse.algorithms.late_join.audit import Periods, periods_of_steps
from lakehouse.algorithms.late_join.margin import SPARE_ROWS
from lakehouse.algorithms.late_join.policy_by_stream import StreamSlack
from tests.benchmarks import page
from tests.benchmarks.late_join.real import REAL, RECALLS, SETS
from tests.benchmarks.late_join.run import Case
from tests.oracles.late_join.batched_join import Batched, Found, join

BATCH, REPAIR_EVERY, MOST = 20, 100, 6_000
NAMES = ("ooo-umts d-1", "zeek-m57-conn", "lorawan-sensors")
HEADS = (
    *("set", "recall", "slack", "reached", "periods", "met", "worst period"),
    *("mean held", "peak held", "mean wait, s"),
)


def figures(quick: bool) -> dict[str, Any]:
    """Return, by set and recall, the periods scored and met, and the rows held against the best constant slack."""
    found: dict[str, Any] = {"multiway_periods": {}, "multiway_periods_met": {}, "multiway_held_to_best": {}}
    lines: list[list[Any]] = []
    for name in NAMES:
        if not (REAL / name.split()[0]).is_dir():
            continue
        case = SETS[name]()
        rows = _in_three(case)
        for recall in RECALLS[:1] if quick else RECALLS:
            _measure(name, case, rows, recall, found, lines)
    if not quick:
        parts = *(__doc__ or "").split("\n\n"), page.table(HEADS, lines)
        page.write("late_join", "multiway", "Joins of three streams with a recall", *parts)
    return found


def _in_three(case: Case) -> Batched:
    """Return the first rows of a set as three streams: by source, or in turns where all rows have one."""
    batch = case.batch[:MOST]
    source = batch.source if len(np.unique(batch.source)) > 2 else np.arange(len(batch))
    number = np.arange(len(batch)) // BATCH
    parts = [np.flatnonzero(source % 3 == side) for side in range(3)]
    event_us, of, key = ([column[part] for part in parts] for column in (batch.event_us, number, batch.key))
    return Batched.of(event_us, of, key, (case.window_us,) * 3)


def _measure(
    name: str, case: Case, rows: Batched, recall: float, found: dict[str, Any], lines: list[list[Any]]
) -> None:
    best, latest = _best_constant(case, rows, recall)
    ways = {"none": (0,) * 3, "best constant": (best,) * 3, "latest row": (latest,) * 3}
    runs = {way: join(rows, slacks) for way, slacks in ways.items()}
    for spare in (0, SPARE_ROWS):
        policy = StreamSlack(rows.windows_us, recall, case.period_us, case.step_us, spare)
        runs[f"chosen, {spare:,} spare"] = join(rows, policy, REPAIR_EVERY)
    for way, run in runs.items():
        periods = _periods(case, rows, run)
        met, scored = periods.met(recall)
        worst = float(periods.recall[periods.is_scored].min(initial=1.0))
        figures = [float(run.online.mean()), scored, met, worst, float(run.held.mean()), int(run.held.max())]
        lines.append([name, recall, way, *figures, _wait_s(rows, run)])
    key, chosen = f"{name}_q{recall:g}", runs["chosen, 0 spare"]
    met, scored = _periods(case, rows, chosen).met(recall)
    found["multiway_periods"][key], found["multiway_periods_met"][key] = scored, met
    found["multiway_held_to_best"][key] = round(
        float(chosen.held.mean() / runs["best constant"].held.mean()), 2
    )


def _periods(case: Case, rows: Batched, run: Found) -> Periods:
    steps, place = np.unique(rows.times_us.max(axis=1) // case.step_us, return_inverse=True)
    whole = np.bincount(place, minlength=len(steps))
    online = np.bincount(place, weights=run.online, minlength=len(steps)).astype(np.int64)
    return periods_of_steps(steps * case.step_us, whole, online, case.period_us, case.step_us)


def _best_constant(case: Case, rows: Batched, recall: float) -> tuple[int, int]:
    """Return the least slack with which every period meets a recall, of a grid, and one that loses nothing."""
    grid = StreamSlack(rows.windows_us, recall, case.period_us, case.step_us).grid
    low, high = 0, min(int(np.searchsorted(grid, max(map(np.ptp, rows.event_us)))), len(grid) - 1)
    latest = int(grid[high])
    while low < high:
        middle = (low + high) // 2
        met, scored = _periods(case, rows, join(rows, (int(grid[middle]),) * 3)).met(recall)
        low, high = (low, middle) if met == scored else (middle + 1, high)
    return int(grid[low]), latest


def _wait_s(rows: Batched, run: Found) -> float:
    """Return the mean wait of all results."""
    newest = rows.batches.max(axis=1)
    repair = np.minimum(newest // REPAIR_EVERY * REPAIR_EVERY + REPAIR_EVERY - 1, len(run.time_us) - 1)
    wait = np.where(run.online, 0, run.time_us[repair] - run.time_us[newest])
    return float(wait.mean()) / 1e6

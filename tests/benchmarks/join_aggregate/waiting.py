"""Answers that wait: COUNT of a join of two streams by group with a recall, in batches of 20 rows.

| set | sides | groups | window, s | EVERY, s | period, s |
| --- | --- | --- | --- | --- | --- |
| ooo-umts | devices with odd and even numbers | second digit of the message's number | 10 | 1 | 60 |
| zeek-m57-conn | connections of odd and even sources | destinations | 600 | 60 | 3,600 |
| D1, generated | sensors of the balls, and of players | two | 2 | 0.2 | 10 |

Every hundredth batch is repaired, which tells the policy which answers were revised. Beside it: no slack, and the least
slack that never changes with which every period meets the recall, known in hindsight. An answer is *complete* if no row
of a later batch is in its windows, by a count that shares no code with the product. *Later* periods begin after the
first one has ended: before, no delay is known. Sets that are absent are skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakehouse.algorithms.late_join.audit import Periods, periods_of_steps
from lakehouse.algorithms.late_join.contract import Int64s
from lakehouse.algorithms.late_join.policy_by_stream import StreamSlack
from tests.benchmarks import page
from tests.benchmarks.late_join.real import REAL, RECALLS, SETS
from tests.benchmarks.late_join.streams import SECOND, recording
from tests.oracles.join_aggregate.waiting_ticks import Complete, Ticked, answered

BATCH, REPAIR_EVERY, MOST = 20, 100, 6_000
TIMES = {"ooo-umts d-1": (10.0, 1.0, 60), "zeek-m57-conn": (600.0, 60.0, 3_600), "D1": (2.0, 0.2, 10)}
HEADS = (
    *("set", "recall", "slack", "answers", "complete", "periods", "met", "later ones missed"),
    *("worst period", "mean slack, s"),
)


def figures(quick: bool) -> dict[str, Any]:
    """Return, by set and recall, the periods scored and met, and the mean slack against the best constant one."""
    found: dict[str, Any] = {"waiting_periods": {}, "waiting_periods_met": {}, "waiting_slack_to_best": {}}
    lines: list[list[Any]] = []
    for name in TIMES:
        if name != "D1" and not (REAL / name.split()[0]).is_dir():
            continue
        rows = _rows(name)
        for recall in RECALLS[:1] if quick else RECALLS:
            _measure(name, rows, recall, found, lines)
    if not quick:
        parts = *(__doc__ or "").split("\n\n"), page.table(HEADS, lines)
        page.write("join_aggregate", "waiting", "Answers that wait for late rows", *parts)
    return found


def _rows(name: str) -> Ticked:
    window_s, every_s, _ = TIMES[name]
    batch = recording("D1", 120.0, 0.125) if name == "D1" else SETS[name]().batch
    batch = batch[:MOST]
    group = batch.source % 2 if name == "D1" else batch.key
    return Ticked.of(
        batch.event_us,
        np.arange(len(batch)) // BATCH,
        batch.side.astype(np.int64),
        np.asarray(group, np.int64),
        round(window_s * SECOND),
        round(every_s * SECOND),
    )


def _measure(name: str, rows: Ticked, recall: float, found: dict[str, Any], lines: list[list[Any]]) -> None:
    window_s, every_s, period_s = TIMES[name]
    settings = [round(window_s * SECOND)], recall, period_s * SECOND, round(every_s * SECOND)
    best = _best_constant(rows, recall, period_s, StreamSlack(*settings).grid)
    runs = {
        "none": answered(rows, 0),
        "best constant": answered(rows, best),
        "chosen": answered(rows, StreamSlack(*settings), REPAIR_EVERY),
    }
    for way, run in runs.items():
        periods = _periods(rows, run, period_s)
        met, scored = periods.met(recall)
        later = periods.start_us >= periods.start_us.min(initial=0) + period_s * SECOND
        missed = int(np.count_nonzero(later & periods.is_scored & (periods.recall < recall)))
        worst = float(periods.recall[periods.is_scored].min(initial=1.0))
        share = float(run.online[run.is_answered].mean())
        figures = [int(run.is_answered.sum()), share, scored, met, missed, worst]
        lines.append([name, recall, way, *figures, float(run.slack_us.mean()) / 1e6])
    key = f"{name}_q{recall:g}"
    met, scored = _periods(rows, runs["chosen"], period_s).met(recall)
    found["waiting_periods"][key], found["waiting_periods_met"][key] = scored, met
    means = {way: float(run.slack_us.mean()) for way, run in runs.items()}
    found["waiting_slack_to_best"][key] = round(means["chosen"] / max(means["best constant"], 1.0), 2)


def _periods(rows: Ticked, run: Complete, period_s: int) -> Periods:
    steps, place = np.unique(rows.tick_us[run.is_answered] // rows.every_us, return_inverse=True)
    whole = np.bincount(place, minlength=len(steps))
    online = np.bincount(place, weights=run.online[run.is_answered], minlength=len(steps)).astype(np.int64)
    return periods_of_steps(steps * rows.every_us, whole, online, period_s * SECOND, rows.every_us)


def _best_constant(rows: Ticked, recall: float, period_s: int, grid: Int64s) -> int:
    """Return the least slack of a grid with which every period meets a recall."""
    low, high = 0, min(int(np.searchsorted(grid, np.ptp(rows.event_us))), len(grid) - 1)
    while low < high:
        middle = (low + high) // 2
        met, scored = _periods(rows, answered(rows, int(grid[middle])), period_s).met(recall)
        low, high = (low, middle) if met == scored else (middle + 1, high)
    return int(grid[low])

"""Aims with short windows beside what each of our policies reaches: every period met, and few rows held.

The aim: at a recall of 0.95 and of 0.99, all periods, with at most 1.2 times the rows of the best constant slack at
0.95, which no method can know beforehand. Soccer streams as in ``figures.py``, w = 0.2 s, without rows to spare.

Then where the rows come from at 0.95: constants known afterwards, of which one may log no more than our policies, and
our policies with other settings. A row that is logged has to be looked at by the repair.
"""

from __future__ import annotations

from typing import Any

from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.policy_per_source import PerSource
from tests.benchmarks import page
from tests.benchmarks.late_join.figures import BY_SOURCE, OURS, soccer
from tests.benchmarks.late_join.run import (
    METHODS,
    Case,
    Run,
    best_constant_run,
    grain_us,
    periods,
    qjoin,
    run,
)

STREAMS = {"D1": ("D1", 4), "D1, one ball": ("D1", 1), "D2": ("D2", 4)}
RECALLS, WINDOW_S, AT_MOST = (0.95, 0.99), 0.2, 1.2
TWENTIETH = 0.05
OTHERWISE: dict[str, tuple[type[NeededSlack], dict[str, Any]]] = {
    "needed slack, twice the margin, a twentieth logged": (NeededSlack, {"margin": 0.5, "logged": TWENTIETH}),
    "per source, waiting for every silent source": (PerSource, {"spared": 0.0}),
    "per source, a tenth logged": (PerSource, {"logged": 0.1}),
    "per source, a fifth logged": (PerSource, {"logged": 0.2}),
    "per source, silences drain in a sixteenth": (PerSource, {"drain": 0.0625}),
    "per source, in a sixteenth, a tenth logged": (PerSource, {"drain": 0.0625, "logged": 0.1}),
}


def figures(quick: bool) -> dict[str, Any]:
    """Return, by stream, recall and policy: periods met and scored, rows held over the best constant's, the aim."""
    rows, ways = list[list[Any]](), list[list[Any]]()
    for stream, (name, balls) in STREAMS.items():
        case = soccer(WINDOW_S, quick, name, balls)
        best = best_constant_run(case, RECALLS[0])
        for recall in RECALLS:
            for method in (OURS, BY_SOURCE):
                found = run(case, METHODS[method](case, recall))
                told = _told(case, found, recall, best)
                rows.append([stream, recall, method, *told, _reached(told[0], told[1], told[3])])
        ways += [[stream, way, *_told(case, found, RECALLS[0], best)] for way, found in _ways(case, best)]
    heads = ["periods", "met", "mean held", "held / best constant at 0.95", "logged"]
    if not quick:
        shown = page.table(["stream", "recall", "policy", *heads, "aim"], rows)
        why = page.table(["stream", "at 0.95", *heads], ways)
        page.write("late_join", "aims", "Aims at short windows", __doc__ or "", shown, why)
    return {"aims": {f"{row[0]}_q{row[1]:g}_{row[2]}": [row[4], row[3], row[6], row[8]] for row in rows}}


def _told(case: Case, found: Run, recall: float, best: Run) -> list[Any]:
    met, scored = periods(case, found).met(recall)
    return [scored, met, found.mean_held, round(found.mean_held / best.mean_held, 3), found.logged_share]


def _ways(case: Case, best: Run) -> list[tuple[str, Run]]:
    recall, times = RECALLS[0], (case.period_us, case.step_us)
    others = {
        way: run(case, qjoin(case, policy(recall, *times, granularity_us=grain_us(case), **settings)))
        for way, (policy, settings) in OTHERWISE.items()
    }
    logging = best_constant_run(case, recall, TWENTIETH)
    return [("best constant", best), ("best constant, a twentieth logged", logging), *others.items()]


def _reached(scored: int, met: int, ratio: float) -> str:
    missed = [*(["periods"] if met < scored else []), *(["rows"] if ratio > AT_MOST else [])]
    return "misses " + " and ".join(missed) if missed else "reached"

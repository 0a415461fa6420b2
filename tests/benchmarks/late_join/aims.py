"""What was aimed at with short windows, and what each of our policies reaches: every period met, and few rows held.

The aim: at a recall of 0.95 and of 0.99, all periods, with at most 1.2 times the rows of the best constant slack at
0.95, which no method can know beforehand. Soccer streams as in ``figures.py``, w = 0.2 s, without rows to spare.
"""

from __future__ import annotations

from typing import Any

from tests.benchmarks import page
from tests.benchmarks.late_join.figures import BY_SOURCE, OURS, soccer
from tests.benchmarks.late_join.run import METHODS, best_constant, periods, run

STREAMS = {"D1": ("D1", 4), "D1, one ball": ("D1", 1), "D2": ("D2", 4)}
RECALLS, WINDOW_S, AT_MOST = (0.95, 0.99), 0.2, 1.2


def figures(quick: bool) -> dict[str, Any]:
    """Return, by stream, recall and policy: periods met and scored, rows held over the best constant's, the aim."""
    rows = list[list[Any]]()
    for stream, (name, balls) in STREAMS.items():
        case = soccer(WINDOW_S, quick, name, balls)
        best = best_constant(case, RECALLS[0])
        for recall in RECALLS:
            for method in (OURS, BY_SOURCE):
                found = run(case, METHODS[method](case, recall))
                met, scored = periods(case, found).met(recall)
                ratio = round(found.mean_held / best, 3)
                told = [found.mean_held, ratio, found.logged_share, _reached(scored, met, ratio)]
                rows.append([stream, recall, method, scored, met, *told])
    if not quick:
        heads = ["stream", "recall", "policy", "periods", "met", "mean held", "held / best constant at 0.95"]
        shown = page.table([*heads, "logged", "aim"], rows)
        page.write("late_join", "aims", "Aims at short windows", __doc__ or "", shown)
    return {"aims": {f"{row[0]}_q{row[1]:g}_{row[2]}": [row[4], row[3], row[6], row[8]] for row in rows}}


def _reached(scored: int, met: int, ratio: float) -> str:
    missed = [*(["periods"] if met < scored else []), *(["rows"] if ratio > AT_MOST else [])]
    return "misses " + " and ".join(missed) if missed else "reached"

"""Settings of the needed-slack policy, one at a time, the others at their defaults.

D1's generated stream at an eighth of its rate, w = 0.2 s. Memory is the mean of rows held.
"""

from __future__ import annotations

from typing import Any

from lakehouse.algorithms.late_join.conditions import Distance
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.policy_paper import PaperSlack
from tests.benchmarks import page
from tests.benchmarks.late_join.figures import QUICK_S
from tests.benchmarks.late_join.run import Case, case_of, periods, qjoin, run
from tests.benchmarks.late_join.streams import SECOND, recording

MS = 1000
SWEEPS: dict[str, tuple[Any, ...]] = {
    "period_us": (20 * SECOND, 40 * SECOND, 60 * SECOND, 120 * SECOND),
    "step_us": (SECOND // 10, SECOND, 5 * SECOND),
    "granularity_us": (1 * MS, 10 * MS, 100 * MS),
    "margin": (0.5, 0.25, 0.125, 0.0625),
    "logged": (0.01, 0.05, 0.2),
    "remembered": (1, 3, 10, 20),
}
BASIC_US = (MS, 10 * MS, 100 * MS)
RECALLS = (0.95, 0.99)


def figures(quick: bool) -> dict[str, Any]:
    """Return, by setting and recall, the share of periods met and the mean of rows held."""
    batch = recording("D1", QUICK_S if quick else None, 0.125)
    case = case_of(batch, Distance(5.0), SECOND // 5, 60 * SECOND, SECOND)
    sweeps = {"margin": SWEEPS["margin"][:2]} if quick else SWEEPS
    rows = [
        [name, value, recall, *_met(case, recall, {name: value})]
        for name, values in sweeps.items()
        for value in values
        for recall in (RECALLS[:1] if quick else RECALLS)
    ]
    if not quick:
        rows += [
            ["basic_us, the paper's policy", b, recall, *_paper(case, recall, b)]
            for b in BASIC_US
            for recall in RECALLS
        ]
        heads = ["setting", "value", "recall", "periods", "met", "mean held", "logged"]
        page.write("late_join", "sweeps", "Settings of the policies", __doc__ or "", page.table(heads, rows))
    return {
        "sweeps": {
            f"{name}={value}_q{recall:g}": [met / max(scored, 1), round(held)]
            for name, value, recall, scored, met, held, _ in rows
        }
    }


def _met(case: Case, recall: float, setting: dict[str, Any]) -> list[Any]:
    policy = NeededSlack(**{"recall": recall, "period_us": case.period_us, **setting})
    asked = Case(case.batch, case.condition, case.window_us, policy.period_us, case.step_us, case.truth)
    return _judged(asked, recall, policy)


def _paper(case: Case, recall: float, basic_us: int) -> list[Any]:
    return _judged(case, recall, PaperSlack(recall, case.period_us, basic_us=basic_us))


def _judged(case: Case, recall: float, policy: Any) -> list[Any]:
    found = run(case, qjoin(case, policy))
    met, scored = periods(case, found).met(recall)
    return [scored, met, found.mean_held, found.logged_share]

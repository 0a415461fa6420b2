"""The paper's figure 2: rows held by the settings of its own policy, one at a time, the others as the paper has them.

D1's generated stream at an eighth of its rate, w = 2 s, P = 60 s, L = 1 s, b = g = 10 ms; recalls as in the figure.
"Largest delay" is read in two ways: of the whole history, or of the last L. The paper finds the period P without
influence but for a small one at 60 s (2 a), least rows at L = 0.1 s (2 b), more rows or worse estimates where b is very
small or large (2 c), and few rows at g = 10 ms (2 d). It does not print how many periods reached their recall.
Here L does what the paper shows; P, b and g change the rows held by 5 % at most, so what it shows of b is not seen.
"""

from __future__ import annotations

from typing import Any, get_args

from lakehouse.algorithms.late_join.conditions import Distance
from lakehouse.algorithms.late_join.policy_paper import PaperSlack, Reading
from tests.benchmarks import page
from tests.benchmarks.late_join.figures import QUICK_S
from tests.benchmarks.late_join.run import Case, case_of, periods, qjoin, run
from tests.benchmarks.late_join.streams import SECOND, recording

MS = 1000
DEFAULTS = {"period_us": 60 * SECOND, "step_us": SECOND, "basic_us": 10 * MS, "granularity_us": 10 * MS}
SWEEPS: dict[str, tuple[int, ...]] = {
    "period_us": (20 * SECOND, 40 * SECOND, 60 * SECOND, 80 * SECOND, 120 * SECOND),
    "step_us": (SECOND // 10, SECOND // 2, SECOND, 2 * SECOND, 5 * SECOND),
    "basic_us": (MS, 10 * MS, 100 * MS, SECOND),
    "granularity_us": (5 * MS, 10 * MS, 50 * MS, 100 * MS, 500 * MS),
}
FIGURES = {"period_us": "2a, P", "step_us": "2b, L", "basic_us": "2c, b", "granularity_us": "2d, g"}
RECALLS = (0.9, 0.95)
READINGS = get_args(Reading)


def figures(quick: bool) -> dict[str, Any]:
    """Return, by reading, setting and recall, the share of periods met and the mean of rows held."""
    batch = recording("D1", QUICK_S if quick else None, 0.125)
    case = case_of(batch, Distance(5.0), 2 * SECOND, 60 * SECOND, SECOND)
    sweeps = {"granularity_us": (10 * MS, 100 * MS)} if quick else SWEEPS
    asked = ((RECALLS[1], READINGS[1]),) if quick else [(r, how) for r in RECALLS for how in READINGS]
    known: dict[Any, list[Any]] = {}
    rows: list[list[Any]] = []
    for name, values in sweeps.items():
        for value in values:
            for recall, reading in asked:
                settings = DEFAULTS | {name: value}
                key = (recall, reading, *settings.values())
                known[key] = known.get(key) or _judged(case, PaperSlack(recall, **settings, reading=reading))
                rows.append([name, value, reading, recall, *known[key]])
    if not quick:
        _write(rows)
    return {
        "paper_settings": {
            f"{name}={value}_{reading}_q{recall:g}": [met / max(scored, 1), round(held)]
            for name, value, reading, recall, scored, met, held, _ in rows
        }
    }


def _judged(case: Case, policy: PaperSlack) -> list[Any]:
    asked = Case(case.batch, case.condition, case.window_us, policy.period_us, case.step_us, case.truth)
    found = run(asked, qjoin(asked, policy))
    met, scored = periods(asked, found).met(policy.recall)
    return [scored, met, found.mean_held, found.logged_share]


def _write(rows: list[list[Any]]) -> None:
    heads = ["setting", "microseconds", "largest delay", "recall", "periods", "met", "mean held", "logged"]
    pictures = [_picture(name, [row for row in rows if row[0] == name]) for name in SWEEPS]
    page.write(
        "late_join",
        "paper_settings",
        "Settings of the paper's policy",
        __doc__ or "",
        *pictures,
        page.table(heads, rows),
    )


def _picture(name: str, rows: list[list[Any]]) -> str:
    file = f"paper-{name.removesuffix('_us')}"
    figure, axes = page.picture(file)
    for recall in RECALLS:
        for reading in READINGS:
            own = [row for row in rows if row[2] == reading and row[3] == recall]
            times, held = [row[1] / SECOND for row in own], [row[6] for row in own]
            axes.plot(times, held, "o-", label=f"{recall:g}, {reading}")
    axes.set(
        xlabel="seconds", ylabel="rows held, mean", title=f"Figure {FIGURES[name]}", xscale="log", ylim=0
    )
    axes.legend()
    return page.save(figure, "late_join", file)

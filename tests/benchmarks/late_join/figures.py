"""The paper's two figures: wait and rows held by the recall asked for, beside the two ways of waiting.

A generated stream at an eighth of its rate (rows held are 8 times fewer, pairs 64 times), players within 5 m of a
ball, P = 60 s, L = 1 s. QJoin's pairs wait for nothing; its rows held are taken each second, MP-K-slack's too.
"""

from __future__ import annotations

from typing import Any

from lakehouse.algorithms.late_join.conditions import Distance
from tests.benchmarks import page
from tests.benchmarks.late_join.run import METHODS, Case, Run, best_constant, case_of, misses, periods, run
from tests.benchmarks.late_join.streams import BALLS, SECOND, recording

WINDOWS_S = (2.0, 0.2)
RECALLS = (0.85, 0.9, 0.95, 0.97, 0.99)
HELD_RECALLS = (0.85, 0.95, 0.99)
# Of a quick run, whose recording has two whole periods: one case goes through all that the others do.
QUICK_WINDOWS_S, QUICK_RECALLS, QUICK_S = (0.2,), (0.95,), 130.0
OURS, BY_SOURCE, WAITING = "needed slack", "per source", "MP-K-slack"


def soccer(window_s: float, quick: bool, name: str, balls: int = BALLS) -> Case:
    """Return the soccer query over a generated recording, with some of its balls."""
    batch = recording(name, QUICK_S if quick else None, 0.125, balls)
    return case_of(batch, Distance(5.0), int(window_s * SECOND), 60 * SECOND, SECOND)


def figures(quick: bool) -> dict[str, Any]:
    """Return the figures of D1."""
    return figures_of("D1", "figures", quick)


def figures_of(name: str, file: str, quick: bool, balls: int = BALLS) -> dict[str, Any]:
    """Return, by window and recall, ours against MP-K-slack, and the periods that reached the recall.

    What begins with ``per_source`` is of our other policy. A full run writes the page ``file``.
    """
    found: dict[str, Any] = {"wait_ratio_to_k_slack": {}, "memory_ratio_to_k_slack": {}}
    found |= {"memory_ratio_to_best_constant": {}, "periods": {}, "periods_met": {}}
    found |= {f"per_source_{what}": {} for what in ("memory_ratio_to_best_constant", "periods_met")}
    pages = []
    for window_s in QUICK_WINDOWS_S if quick else WINDOWS_S:
        case = soccer(window_s, quick, name, balls)
        runs: dict[tuple[str, float], Run] = {}
        for recall in QUICK_RECALLS if quick else RECALLS:
            for method in (OURS, BY_SOURCE, WAITING) if quick else METHODS:
                known = runs.get((method, RECALLS[0])) if method == WAITING else None
                runs[method, recall] = known or run(case, METHODS[method](case, recall))
            ours, waiting = runs[OURS, recall], runs[WAITING, recall]
            met, scored = periods(case, ours).met(recall)
            key = f"w{window_s:g}_q{recall:g}"
            found["wait_ratio_to_k_slack"][key] = round(ours.mean_wait_s / waiting.mean_wait_s, 4)
            found["memory_ratio_to_k_slack"][key] = round(ours.mean_held / waiting.mean_held, 4)
            if not quick and recall in HELD_RECALLS:
                best = best_constant(case, recall)
                for method, prefix in ((OURS, ""), (BY_SOURCE, "per_source_")):
                    ratio = round(runs[method, recall].mean_held / best, 3)
                    found[f"{prefix}memory_ratio_to_best_constant"][key] = ratio
            found["periods"][key], found["periods_met"][key] = scored, met
            found["per_source_periods_met"][key] = periods(case, runs[BY_SOURCE, recall]).met(recall)[0]
        pages.append((window_s, case, runs))
    if not quick:
        ratios = found["memory_ratio_to_best_constant"], found["per_source_memory_ratio_to_best_constant"]
        _write(f"{name}{'' if balls == BALLS else ', one ball'}", file, pages, ratios)
    return found


def _write(
    name: str,
    file: str,
    pages: list[tuple[float, Case, dict[tuple[str, float], Run]]],
    best: tuple[dict[str, float], dict[str, float]],
) -> None:
    parts = [__doc__ or ""]
    heads = ["method", "recall", "periods", "met", "mean wait s", "p99 wait s", "mean held", "peak held"]
    missed_heads = ["method", "recall", "from s", "to s", "periods", "worst recall", "why"]
    for window_s, case, runs in pages:
        rows, missed = [], []
        for (method, recall), each in runs.items():
            met, scored = periods(case, each).met(recall)
            waits = [each.mean_wait_s, each.p99_wait_s]
            rows.append(
                [
                    method,
                    recall,
                    scored,
                    met,
                    *waits,
                    round(each.mean_held),
                    each.peak_held,
                    each.logged_share,
                ]
            )
            if method in (OURS, BY_SOURCE):
                missed += [[method, recall, *row] for row in misses(case, each, recall)]
        parts += [
            f"## w = {window_s:g} s",
            page.table([*heads, "logged"], sorted(rows, key=lambda row: row[1])),
        ]
        parts += [
            _pictures(file, window_s, runs),
            "Periods that ours missed:",
            page.table(missed_heads, missed),
        ]
    constant = [[key, value, best[1][key]] for key, value in best[0].items()]
    parts += [
        "## Against the best constant slack in hindsight",
        page.table(["case", "rows held, needed slack / best", "per source / best"], constant),
    ]
    page.write("late_join", file, f"Wait and memory by recall, {name}", *parts)


def _pictures(file: str, window_s: float, runs: dict[tuple[str, float], Run]) -> str:
    shown = []
    for what, label in (("mean_wait_s", "mean wait, s"), ("mean_held", "rows held, mean")):
        name = f"{what.split('_')[1]}-w{window_s:g}{file.removeprefix('figures')}".replace(".", "_")
        figure, axes = page.picture(name)
        for method in METHODS:
            axes.plot(
                RECALLS, [getattr(runs[method, recall], what) for recall in RECALLS], "o-", label=method
            )
        axes.set(xlabel="recall asked for", ylabel=label, title=f"w = {window_s:g} s")
        if what == "mean_held":
            axes.set_yscale("log")
        axes.legend()
        shown.append(page.save(figure, "late_join", name))
    return "\n\n".join(shown)

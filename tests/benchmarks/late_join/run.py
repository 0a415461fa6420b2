"""One run of a join over a stream: pairs by step, waits, rows held; and the periods it met."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lakehouse.algorithms.late_join.audit import Periods
from lakehouse.algorithms.late_join.bucketing import place_in_buckets
from lakehouse.algorithms.late_join.conditions import Condition
from lakehouse.algorithms.late_join.contract import Batch, Pairs
from lakehouse.algorithms.late_join.policy import SlackPolicy
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.policy_paper import PaperSlack, Reading
from lakehouse.algorithms.late_join.policy_per_source import PerSource
from lakehouse.algorithms.late_join.qjoin import CHUNK, QJoin
from tests.benchmarks.late_join.streams import SECOND, in_event_order
from tests.oracles.late_join.audit import periods_of
from tests.oracles.late_join.constant_slack import ConstantSlack
from tests.oracles.late_join.k_slack import KSlack, LargestDelay, RecallModel

Join = QJoin | KSlack
WAITS_UP_TO_MS = 2**18


@dataclass(frozen=True)
class Case:
    """A stream and what is asked of it; ``truth`` are all its pairs by step."""

    batch: Batch
    condition: Condition
    window_us: int
    period_us: int
    step_us: int
    truth: Any

    @property
    def span(self) -> tuple[int, int]:
        """Return the first step and the number of steps."""
        first = int(self.batch.event_us.min()) // self.step_us
        return first, int(self.batch.event_us.max()) // self.step_us - first + 1


@dataclass(frozen=True)
class Run:
    """What came of a run; waits are stream time of pairs found online, held are rows at each step."""

    online: Any
    mean_wait_s: float
    p99_wait_s: float
    mean_held: float
    peak_held: int
    logged_share: float
    cpu_s: float


def _needed(case: Case, recall: float) -> Join:
    return qjoin(case, NeededSlack(recall, case.period_us, case.step_us, granularity_us=grain_us(case)))


def _by_source(case: Case, recall: float) -> Join:
    return qjoin(case, PerSource(recall, case.period_us, case.step_us, granularity_us=grain_us(case)))


def _paper(case: Case, recall: float, reading: Reading) -> Join:
    grain = grain_us(case)
    return qjoin(case, PaperSlack(recall, case.period_us, case.step_us, grain, grain, reading))


def _largest(case: Case, recall: float) -> Join:
    return KSlack(case.condition, case.window_us, LargestDelay(step_us=case.step_us))


def _modelled(case: Case, recall: float) -> Join:
    model = RecallModel(recall, case.period_us, case.step_us, grain_us(case))
    return KSlack(case.condition, case.window_us, model)


METHODS: dict[str, Callable[[Case, float], Join]] = {
    "needed slack": _needed,
    "per source": _by_source,
    "paper, all history": partial(_paper, reading="history"),
    "paper, last L": partial(_paper, reading="recent"),
    "MP-K-slack": _largest,
    "adaptive K-slack": _modelled,
}


def grain_us(case: Case) -> int:
    """Return the granularity and the basic window: the paper's 10 ms, a 200th of windows above its 2 s."""
    return max(10_000, case.window_us // 200)


def qjoin(case: Case, policy: Any) -> QJoin:
    """Return an empty join for a case."""
    return QJoin(case.condition, case.window_us, policy)


def case_of(batch: Batch, condition: Condition, window_us: int, period_us: int, step_us: int) -> Case:
    """Return a case; its truth is found by a join in event order, where nothing is late."""
    case = Case(batch, condition, window_us, period_us, step_us, None)
    ordered = Case(in_event_order(batch), condition, window_us, period_us, step_us, None)
    truth = run(ordered, qjoin(case, ConstantSlack(1, 1, step_us))).online
    return Case(batch, condition, window_us, period_us, step_us, truth)


def run(case: Case, join: Join) -> Run:
    """Feed a stream to a join in chunks; count its pairs by step and how long they waited."""
    first, steps = case.span
    online, waits = np.zeros(steps, np.int64), np.zeros(WAITS_UP_TO_MS, np.int64)
    started = time.process_time()
    for at in range(0, len(case.batch), CHUNK):
        _count(join.process(case.batch[at : at + CHUNK]).pairs, case.step_us, first, online, waits)
    if isinstance(join, KSlack):
        _count(join.flush().pairs, case.step_us, first, online, waits)
    cpu_s = time.process_time() - started
    held = join.held_over_time()[:, 1] if len(join.held_over_time()) else np.zeros(1, np.int64)
    logged = join.counts["logged"] / len(case.batch) if isinstance(join, QJoin) else 0.0
    total = max(int(waits.sum()), 1)
    return Run(
        online=online,
        mean_wait_s=float((waits * np.arange(WAITS_UP_TO_MS)).sum() / total / 1000),
        p99_wait_s=float(np.searchsorted(np.cumsum(waits), 0.99 * total) / 1000),
        mean_held=float(held.mean()),
        peak_held=int(held.max()),
        logged_share=logged,
        cpu_s=cpu_s,
    )


def run_in_buckets(case: Case, policy: Callable[[], SlackPolicy], buckets: int, batch_rows: int) -> Run:
    """Run a case as a registered query, with a policy for each bucket; rows held are those after each batch."""
    joins = [qjoin(case, policy()) for _ in range(buckets)]
    first, steps = case.span
    online, held, newest = np.zeros(steps, np.int64), [], np.full(2, case.batch.event_us[0])
    for at in range(0, len(case.batch), batch_rows):
        batch = case.batch[at : at + batch_rows]
        position, bucket = place_in_buckets(case.condition, batch, buckets)
        for number, join in enumerate(joins):
            join.advance((int(newest[0]), int(newest[1])) if at else (None, None))
            pairs = join.process(batch[position[bucket == number]]).pairs
            online += np.bincount(pairs.event_us // case.step_us - first, minlength=steps)
        np.maximum.at(newest, batch.side, batch.event_us)
        held.append(sum(join.held for join in joins))
    logged = sum(join.counts["logged"] for join in joins) / len(case.batch)
    return Run(online, 0.0, 0.0, float(np.mean(held)), max(held), logged, 0.0)


def periods(case: Case, found: Run) -> Periods:
    """Return the sliding periods of a run."""
    return periods_of(case.truth, found.online, case.span[0] * case.step_us, case.period_us, case.step_us)


def best_constant(case: Case, recall: float) -> float:
    """Return the mean rows held by the run of ``best_constant_run``."""
    return best_constant_run(case, recall).mean_held


def best_constant_run(case: Case, recall: float, logged: float = 1.0) -> Run:
    """Return the run of the least constant slack, the same on both sides, that meets every period.

    Doubled until it does, then halved to within a sixteenth; no method can know it beforehand. ``logged``: the share of
    rows that it may log.
    """
    low, high = 0, 10_000
    while (best := _run_if_met(case, recall, high, logged)) is None:
        low, high = high, 2 * high
    for _ in range(4):
        middle = (low + high) // 2
        found = _run_if_met(case, recall, middle, logged)
        low, high, best = (middle, high, best) if found is None else (low, middle, found)
    return best


def _run_if_met(case: Case, recall: float, slack_us: int, logged: float) -> Run | None:
    found = run(case, qjoin(case, ConstantSlack(slack_us, slack_us, case.step_us)))
    met, scored = periods(case, found).met(recall)
    return found if met == scored and found.logged_share <= logged else None


def misses(case: Case, found: Run, recall: float) -> list[list[Any]]:
    """Return each stretch of scored periods that missed the recall: from, to, how many, the worst, and why.

    The reason is the step inside the worst period in which most pairs were missed.
    """
    all_periods = periods(case, found)
    missed = np.flatnonzero(all_periods.is_scored & (all_periods.recall < recall))
    rows = []
    for stretch in np.split(missed, np.flatnonzero(np.diff(missed) > 1) + 1):
        if len(stretch):
            worst = int(stretch[np.argmin(all_periods.recall[stretch])])
            width = min(case.period_us // case.step_us, len(case.truth))
            lost = (case.truth - found.online)[worst : worst + width]
            at = worst + int(np.argmax(lost))
            third = np.sort(lost)[::-1][: max(1, width // 10)].sum() / max(lost.sum(), 1)
            why = f"{third:.0%} of its losses in a tenth of its time, most at {at * case.step_us / SECOND:,.6g} s"
            if worst == 0:
                why = f"the first period: nothing was known yet; {why}"
            rows.append(
                [
                    int(stretch[0]) * case.step_us / SECOND,
                    int(stretch[-1]) * case.step_us / SECOND,
                    len(stretch),
                    float(all_periods.recall[worst]),
                    why,
                ]
            )
    return rows


def _count(pairs: Pairs, step_us: int, first: int, online: Any, waits: Any) -> None:
    online += np.bincount(pairs.event_us // step_us - first, minlength=len(online))
    waited = np.minimum(pairs.wait_us // 1000, WAITS_UP_TO_MS - 1)
    counts = np.bincount(waited)
    waits[: len(counts)] += counts

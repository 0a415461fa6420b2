"""More comes than can be handled, twice as much for a while: memory, delay, and how soon all is as before.

The queries of ``executor`` over the same real rows, for a while at half of what the policy can handle, then at twice of
it, then at half again. Arrivals have a schedule; a batch that comes while memory is full waits at its source.
Delay is a result's: from its batch's scheduled arrival until it leaves. *Recovered* is when the last result with a
delay above T = 600 ms has left, counted from the moment the load fell.

Time is the processor's that this process used; where nothing waits the clock jumps to the next arrival. So a busy
machine changes no figure, and what other processes take is not counted. What a policy can handle is measured first,
over the same rows one after the other, so often that its order has settled. Every run must put out the rows that each
query alone puts out.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakehouse.algorithms.scheduling.contract import SECOND, Query
from lakehouse.algorithms.scheduling.executor import Executor
from lakehouse.algorithms.scheduling.policy import Policy
from tests.benchmarks import page
from tests.benchmarks.scheduling.executor import Source, real_rows
from tests.benchmarks.scheduling.predicates import drawn, queries
from tests.benchmarks.scheduling.rows import absent
from tests.benchmarks.scheduling.run import POLICIES
from tests.benchmarks.scheduling.scenarios import DEADLINE_US
from tests.oracles.scheduling.alone import alone, run_through

LOADS = (0.5, 2.0, 0.5)
PHASE_S, QUICK_PHASE_S = (6.0, 6.0, 18.0), (0.2, 0.2, 0.6)
LIMIT_BYTES = 8 * 2**20
SHOWN = ("FIFO", "Chain", "MultiFactor")
PHASES = ("before", "overload", "after")


class Clock:
    """The processor's time, with jumps over the time in which there is nothing to do; nanoseconds."""

    def __init__(self) -> None:
        self._ahead_ns = -time.process_time_ns()

    def __call__(self) -> int:
        """Return the time since the clock was made."""
        return time.process_time_ns() + self._ahead_ns

    def jump_to(self, moment_ns: int) -> None:
        """Go on at this moment, unless it has passed."""
        self._ahead_ns += max(0, moment_ns - self())


@dataclass
class Replay:
    """What came of a run: per result its batch's scheduled arrival and when it left, in us, and rows by query."""

    arrived_us: list[int] = field(default_factory=list)
    left_us: list[int] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    peak_bytes: int = 0
    most_at_source: int = 0

    def delay_ms(self, from_us: float, to_us: float) -> Any:
        """Return the delays of the results of what arrived between two moments."""
        arrived = np.array(self.arrived_us)
        return (np.array(self.left_us) - arrived)[(arrived >= from_us) & (arrived < to_us)] / 1000


def figures(quick: bool) -> dict[str, Any]:
    """Return by policy what is held at most and what delay each phase has, and when the overload was over."""
    if missing := absent():
        return {"overload_skipped": missing}
    phases, asked, rows = QUICK_PHASE_S if quick else PHASE_S, queries(drawn()), real_rows(True)
    names = SHOWN[-1:] if quick else SHOWN
    _capacity(asked, POLICIES["FIFO"], rows[:4])  # warms up what is compiled
    found, pictured = {}, {}
    for name in names:
        per_s = _capacity(asked, POLICIES[name], rows * (4 if quick else 20))
        arrivals = list(scheduled(rows, per_s, phases))
        run = replayed(asked, POLICIES[name], arrivals)
        _require_whole(run, asked, arrivals)
        found[name], pictured[name] = _told(run, per_s, phases), run
    if not quick:
        _write(found, pictured, phases)
    return {"overload_limit_bytes": LIMIT_BYTES, "overload": found}


def scheduled(rows: Source, per_s: float, phases: tuple[float, ...]) -> Any:
    """Yield (moment in ns, stream, batch): the rows over and over, at each phase's share of the rate."""
    ends = np.cumsum(phases)
    at_s = 0.0
    for stream, batch in itertools.cycle(rows):
        phase = int(np.searchsorted(ends, at_s, side="right"))
        if phase == len(phases):
            return
        yield round(at_s * 1e9), stream, batch
        at_s += batch.num_rows / (LOADS[phase] * per_s)


def replayed(asked: list[Query], make: Callable[[], Policy], arrivals: list[tuple[int, str, Any]]) -> Replay:
    """Run the queries over batches as they arrive."""
    clock, run = Clock(), Replay(rows={query.name: 0 for query in asked})
    executor = Executor(asked, make(), clock, LIMIT_BYTES)
    taken: list[int] = []
    source, landed = iter(arrivals), deque[tuple[int, str, Any]]()
    coming = next(source, None)
    while coming or landed or executor.waiting.any():
        while coming and coming[0] <= clock():
            landed.append(coming)
            coming = next(source, None)
        run.most_at_source = max(run.most_at_source, len(landed))
        while landed and executor.offer(*landed[0][1:]):
            taken.append(landed.popleft()[0] // 1000)
        if not executor.step() and coming and not landed:
            clock.jump_to(coming[0])
        for result in executor.results():
            run.arrived_us.append(taken[result.number])
            run.left_us.append(clock() // 1000)
            run.rows[result.query] += result.rows.num_rows
    run.peak_bytes = executor.memory.peak
    return run


def _capacity(asked: list[Query], make: Callable[[], Policy], rows: Source) -> float:
    clock = Clock()
    executor = Executor(asked, make(), clock, LIMIT_BYTES)
    for _ in run_through(executor, rows):
        pass
    count = int(sum(batch.num_rows for _, batch in rows))
    return count / (clock() / 1e9)


def _require_whole(run: Replay, asked: list[Query], arrivals: list[tuple[int, str, Any]]) -> None:
    counted: dict[tuple[str, int], int] = {}
    for _, stream, batch in arrivals:
        counted[stream, id(batch)] = counted.get((stream, id(batch)), 0) + 1
    batches = {id(batch): (stream, batch) for _, stream, batch in arrivals}
    for query in asked:
        expected = sum(
            times * sum(each.num_rows for _, each in alone(query, [batches[of]]))
            for (_, of), times in counted.items()
        )
        assert run.rows[query.name] == expected, (query.name, run.rows[query.name], expected)


def _told(run: Replay, per_s: float, phases: tuple[float, ...]) -> dict[str, Any]:
    ends = np.cumsum(phases) * SECOND
    starts = ends - np.array(phases) * SECOND
    found: dict[str, Any] = {
        "capacity_rows_per_s": round(per_s),
        "peak_bytes": run.peak_bytes,
        "most_batches_at_source": run.most_at_source,
    }
    for name, start, end in zip(PHASES, starts, ends, strict=True):
        delays = run.delay_ms(start, end)
        found[f"{name}_p50_ms"] = round(float(np.quantile(delays, 0.5)), 1)
        found[f"{name}_p99_ms"] = round(float(np.quantile(delays, 0.99)), 1)
    left = np.array(run.left_us)
    late = left[left - np.array(run.arrived_us) > DEADLINE_US]
    found["recovered_after_s"] = round(max(0.0, float(late.max(initial=0) - ends[1])) / SECOND, 2)
    return found


def _write(found: dict[str, Any], pictured: dict[str, Replay], phases: tuple[float, ...]) -> None:
    heads = ["policy", *next(iter(found.values()))]
    table = page.table(heads, [[name, *each.values()] for name, each in found.items()])
    figure, axes = page.picture("overload")
    for name, run in pictured.items():
        second = np.array(run.arrived_us) // (SECOND // 4)
        delay = np.bincount(second, weights=(np.array(run.left_us) - np.array(run.arrived_us)) / 1000)
        count = np.bincount(second)
        at = np.flatnonzero(count)
        axes.plot(at / 4, delay[at] / count[at], label=name, linewidth=1.2)
    axes.axvspan(phases[0], phases[0] + phases[1], alpha=0.15, label="twice the capacity")
    axes.set(xlabel="s", ylabel="mean delay of results, ms", yscale="symlog")
    axes.legend()
    limit = (
        f"Memory is limited to {LIMIT_BYTES / 2**20:g} MiB; one batch may come on top, with what it grows to."
    )
    page.write(
        "scheduling",
        "overload",
        "Twice the capacity",
        __doc__ or "",
        limit,
        table,
        page.save(figure, "scheduling", "overload"),
    )

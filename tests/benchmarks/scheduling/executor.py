"""Real operators: 20 queries of three to six predicates over connections of an office and readings of burning rooms.

The executor alone, one core, over the same batches with each policy; FIFO is the written order. Predicates that
several queries have run once a row for all of them, with every policy; beside it the same without sharing, and each
query alone. Every run puts out the same rows. Seconds are of the processor's time that this process used, the least of
the rounds; policies take turns within a round.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lakehouse.algorithms.scheduling.contract import Query
from lakehouse.algorithms.scheduling.executor import Executor
from lakehouse.algorithms.scheduling.policy import Policy
from tests.benchmarks import page
from tests.benchmarks.scheduling.predicates import drawn, queries
from tests.benchmarks.scheduling.rows import absent, batches, connections, interleaved, readings
from tests.benchmarks.scheduling.run import EXECUTED as POLICIES
from tests.benchmarks.scheduling.status import status
from tests.oracles.scheduling.alone import alone, run_through

Source = list[tuple[str, Any]]
# The rows come so often over that a run is some seconds long: plans hold for a second or so.
OVER = 8


def figures(quick: bool) -> dict[str, Any]:
    """Return how many times faster than in the written order each policy runs all queries, and what sharing gives."""
    if missing := absent():
        return {"executor_skipped": missing}
    source, rounds = real_rows(quick), 1 if quick else 3
    written = drawn()
    shared, apart = queries(written), queries(written, is_shared=False)
    rows = sum(batch.num_rows for _, batch in source)
    taken: dict[str, list[float]] = {}
    timed_run(shared, POLICIES["FIFO"], source[:2])  # warms up what is compiled
    for _ in range(rounds):
        outputs = set()
        for name, make in POLICIES.items():
            for asked, label in ((shared, name), (apart, f"{name}, nothing shared")):
                seconds, output = timed_run(asked, make, source)
                taken.setdefault(label, []).append(seconds)
                outputs.add(output)
        started = time.process_time()
        outputs.add(tuple(sum(each.num_rows for _, each in alone(query, source)) for query in apart))
        taken.setdefault("each query alone", []).append(time.process_time() - started)
        assert len(outputs) == 1, outputs
    least = {label: min(each) for label, each in taken.items()}
    if not quick:
        _write(least, rows, shared, source)
    speedup = {name: round(least["FIFO"] / least[name], 2) for name in POLICIES}
    apart_fifo = least["FIFO, nothing shared"]
    return {
        "executor_rows": rows,
        "speedup_over_written_order": speedup,
        "speedup_over_written_order_nothing_shared": {
            name: round(apart_fifo / least[f"{name}, nothing shared"], 2) for name in POLICIES
        },
        "speedup_of_sharing": round(apart_fifo / least["FIFO"], 2),
        "speedup_over_each_query_alone": round(least["each query alone"] / least["MultiFactor"], 2),
    }


def real_rows(quick: bool) -> Source:
    """Return the batches of both streams as they would arrive together."""
    streams = {
        "connections": batches(connections(), 2 if quick else 12),
        "readings": batches(readings(1 if quick else 2)),
    }
    return list(interleaved(streams)) * (1 if quick else OVER)


def timed_run(
    asked: list[Query], make: Callable[[], Policy], source: Source
) -> tuple[float, tuple[int, ...]]:
    """Run the queries over all batches; return the processor's seconds and how many rows each has put out."""
    started = time.process_time()
    executor = Executor(asked, make(), time.perf_counter_ns)
    found: dict[str, int] = {query.name: 0 for query in asked}
    for result in run_through(executor, source):
        found[result.query] += result.rows.num_rows
    seconds = time.process_time() - started
    assert all(state.error is None for state in executor.states.values())
    return seconds, tuple(found.values())


def _write(least: dict[str, float], rows: int, asked: list[Query], source: Source) -> None:
    executor = Executor(asked, POLICIES["MultiFactor"](), time.perf_counter_ns)
    for _ in run_through(executor, source):
        pass
    by_query: dict[str, list[str]] = {query.name: [] for query in asked}
    for each in status(executor):
        by_query[each.query].append(
            f"{each.operator} ({each.handled_per_s / 1000:,.0f} k/s, {each.selectivity:.2f})"
        )
    orders = [
        [query.name, ", ".join(each.name for each in query.chain.operators), ", ".join(by_query[query.name])]
        for query in asked
    ]
    fifo = {True: least["FIFO"], False: least["FIFO, nothing shared"]}
    runs = [
        [label, seconds, rows / seconds, fifo["nothing" not in label] / seconds]
        for label, seconds in least.items()
    ]
    page.write(
        "scheduling",
        "executor",
        "Twenty queries on real rows",
        __doc__ or "",
        page.table(["policy", "seconds", "source rows/s", "times the written order"], runs),
        "## What MultiFactor found",
        "n in thousand rows a second (over all queries that share the predicate) and S, in the order it ended with.",
        page.table(["query", "written", "measured"], orders),
    )

"""``python -m infra.compile_kernels``, part of ``make setup``: compile the loops that jobs run.

numba keeps what it compiles beside the source, so the first batches of a home, and tests, find it there. The loops are
compiled by use, on a handful of rows, with the types that the jobs use: a test compares them with those of a run.
"""

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np


def main() -> int:
    """Compile in two processes, and say how long that took."""
    started = time.monotonic()
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        for done in [pool.submit(step) for step in STEPS]:
            done.result()
    print(f"compiled in {time.monotonic() - started:.0f} s")
    return 0


def compile_pairs() -> None:
    """Join, restore and repair with every kind of condition."""
    from lakehouse.algorithms.late_join.conditions import Band, Comparison, Distance, Equality
    from lakehouse.algorithms.late_join.contract import Batch
    from lakehouse.algorithms.late_join.policy_per_source import PerSource
    from lakehouse.algorithms.late_join.qjoin import QJoin
    from lakehouse.algorithms.late_join.repair import missing_pairs

    dice = np.random.default_rng(0)
    # More than the ring of a new join holds.
    event = np.arange(2000) - dice.integers(0, 20, 2000)
    rows = Batch.of(np.arange(2000) % 2, event, key=np.arange(2000) % 3, numbers=dice.random((2000, 2)))
    where = (Comparison(0, "<=", 0, 1.0),)
    for condition in (Equality(where), Equality(), Band(0.5), Distance(0.5)):
        policies = [PerSource(0.9, 20, 5, granularity_us=1) for _ in range(2)]
        join, again = (QJoin(condition, 6, policy) for policy in policies)
        refused = join.process(rows).refused
        again.catch_up(join.counters(), join.entered(rows, refused)[1])
        again.advance((200, 200))
        policies[0].count_missed(rows.side, rows.event_us, rows.event_us, rows.event_us)
        missing_pairs(condition, 6, rows, np.arange(10), rows.event_us[:10], np.zeros(10, np.int64))
        # Where most rows are logged, the others are not looked for.
        missing_pairs(condition, 6, rows, np.arange(2000), rows.event_us, np.zeros(2000, np.int64))


def compile_aggregates() -> None:
    """Answer, restore and repair with the methods that queries run unless they name another."""
    from lakehouse.algorithms.join_aggregate.contract import Aggregate, Rows, Shape
    from lakehouse.algorithms.join_aggregate.online import Online
    from lakehouse.algorithms.join_aggregate.revision import missing

    dice, count = np.random.default_rng(0), 90
    functions = (("sum", 0), ("max", 0), ("min", 1), ("count", 1))
    aggregates = tuple(Aggregate(name, side, 0) for name, side in functions)  # type: ignore[arg-type]
    shapes = {
        "factorised": Shape(((0,), (0,)), (True, False), aggregates),
        "view_tree": Shape(((0,), (0, 1), (1,)), (True, False, True), aggregates),
        "multiway": Shape(((0, 2), (0, 1), (1, 2)), (True, False, True), aggregates),
    }
    for method, shape in shapes.items():
        enter = np.sort(dice.integers(0, 60, count)) - dice.integers(0, 9, count)
        keys, values = dice.integers(0, 2, (count, shape.width)), dice.random((count, 1))
        group = dice.integers(0, 3, count)
        rows = Rows.of(np.arange(count) % shape.sides, enter, enter + 8, keys, group=group, values=values)
        online, again = (Online(shape, method, 2, 4) for _ in range(2))
        online.process(rows[:60], 30)
        again.catch_up(online.last_us, online.rows())
        again.process(rows[60:], 60)
        missing(shape, rows, rows.enter_us + 3, 2)


def compile_rollups() -> None:
    """Add up the nodes of measures and counters, and the figures of columns."""
    from lakehouse.algorithms.profile.day_kernels import find_days, minute_runs
    from lakehouse.algorithms.profile.summary import NumberRuns, Summary, hashes_of
    from lakehouse.algorithms.rollup.counter_kernels import COUNTER, fold_nodes
    from lakehouse.algorithms.rollup.runs import fold_runs, sum_runs

    ends, is_there = np.array([0, 2, 3]), np.ones(3, np.bool_)
    out = np.empty(2), np.empty(2), np.empty(2, np.bool_)
    # Of rows, and of nodes that Arrow has read.
    for offsets, values in ((ends, np.ones(3)), (_of_arrow(ends.astype(np.int32)), _of_arrow(np.ones(3)))):
        sum_runs(offsets, values, values, is_there, *out)
    fold_nodes(np.zeros(3, COUNTER), 2)
    # Words of a column are its own memory, which Arrow holds, or made of it.
    for words in (np.zeros(3, np.int64), _of_arrow(np.zeros(3, np.int64))):
        hashes_of(words, ends)
    Summary.combined([Summary.of(0, np.zeros(3, np.int64), np.ones(3))])
    numbers, begins = _of_arrow(np.ones(3)), np.empty(3, np.int64)
    NumberRuns.of(numbers, numbers.view(np.int64), True, ends, 512)
    for days in (_of_arrow(np.zeros(3, np.int64)), np.zeros(3, np.int64)):
        find_days(days, 86_400_000_000, begins)
        minute_runs(days, ends, 60_000_000, 1440, np.empty(3, np.int64), np.empty(3, np.int64), begins)
    times, totals, span = np.zeros(3, np.int64), np.zeros(2, np.int64), np.zeros((2, 2), np.int64)
    for kind in (np.float64, np.int64):
        extremes = np.zeros(3, kind)
        fold_runs(ends, times, extremes, extremes, times, times, totals, np.zeros((2, 2), kind), span)


def _of_arrow(column: Any) -> Any:
    column.flags.writeable = False
    return column


def compile_others() -> None:
    """Plan a join of three streams, and choose the next operator of a shared scan."""
    from lakehouse.algorithms.multiway_join.centre import Centre
    from lakehouse.algorithms.multiway_join.contract import Query, Sending, Sites, Vector
    from lakehouse.algorithms.multiway_join.exhaustive import Smje
    from lakehouse.algorithms.multiway_join.synopsis import HashedSynopsis

    sites = Sites.of("123", [[0, 18, 25], [18, 0, 20], [25, 20, 0]])
    query, sending = Query(sites, (10, 10, 10)), Sending(is_compact=True)
    centre = Centre(query, HashedSynopsis(3, 16), Smje(), sending)
    for name in "1232":
        centre.apply(name, Vector.of([1, 2, 3], [1, 1, 1]))
    _scan()


def _scan() -> None:
    import pyarrow as pa

    from lakehouse.algorithms.scheduling.contract import Chain, Query
    from lakehouse.algorithms.scheduling.executor import Executor
    from lakehouse.algorithms.scheduling.multifactor import MultiFactor
    from lakehouse.algorithms.scheduling.operators import Predicate

    filters = tuple(Predicate(name, run=lambda rows: np.ones(rows.num_rows, np.bool_)) for name in "ab")
    executor = Executor([Query("q", Chain("s", filters))], MultiFactor(), time.monotonic_ns)
    executor.offer("s", pa.record_batch({"x": pa.array([1, 2, 3])}))
    while executor.step():
        executor.results()


# What takes longest first.
STEPS = (compile_pairs, compile_aggregates, compile_others, compile_rollups)


if __name__ == "__main__":
    raise SystemExit(main())

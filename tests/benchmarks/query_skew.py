"""Cost to a registered query of a key that has half of all rows, beside even keys: a part of ``query_batch``.

A million rows of two sides in turn, 10,000 a second of a thousand keys; ``hot``: every other row is of one of them.
They are cut into 1, 2, 4 and 8 buckets, and each bucket is run by itself, in batches of 100,000 rows, as a task would:

    count    COUNT(*) and SUM of a join within a minute, every second
    pairs    the pairs within 2 ms: hot, a row of the hot key meets ten others, and the rest seldom one

Seconds of processors of all buckets together (``all``), and of the one that takes longest (``longest``), which is how
long the batches take where there is a core for each bucket; of pairs also those per million pairs. ``alone`` is what
the hot key takes by itself: a bucket that has it cannot be done before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.queries.aggregate.bucket import BucketAggregate
from lakehouse.queries.aggregate.query import shape_of
from lakehouse.queries.aggregate.rows import buckets_of
from lakehouse.queries.pairs.bucket import PAIR, BucketJoin
from lakehouse.queries.runtime.tasks.bucket import STATE, BucketResult, StateBefore
from tests.benchmarks.join_aggregate import state as counted
from tests.benchmarks.late_join import state as paired

ROWS, QUICK_ROWS, BATCH = 1_000_000, 20_000, 100_000
STEP_US, KEYS, HOT = 100, 1000, 0
WINDOW_US = {"count": 60_000_000, "pairs": 2_000}
BUCKETS = (1, 2, 4, 8)
Answer = Callable[[pa.Table, pa.Table, StateBefore, int], pa.Table]


def figures(quick: bool) -> dict[str, Any]:
    """Return by query, keys and buckets the seconds of all buckets, of the longest, and per million pairs."""
    found: dict[str, Any] = {}
    rows = QUICK_ROWS if quick else ROWS
    for name, run in (("count", _count), ("pairs", _pairs)):
        run(_keys(BATCH, is_hot=True), 0)
        for is_hot in (False, True):
            keys = _keys(rows, is_hot)
            for buckets in BUCKETS:
                own = buckets_of(counted._query(1), pa.table({"k_0": keys}), buckets)
                spent = [run(np.where(own == bucket, keys, -1), buckets) for bucket in range(buckets)]
                each = [seconds for seconds, _ in spent]
                pairs = sum(made for _, made in spent)
                key = f"{name}_{'hot' if is_hot else 'even'}_{buckets}"
                found[key] = {"all": round(sum(each), 2), "longest": round(max(each), 2)}
                if name == "pairs":
                    found[key]["s_a_million_pairs"] = round(sum(each) / max(pairs, 1) * 1e6, 2)
        keys = _keys(rows, is_hot=True)
        found[f"{name}_alone"] = round(run(np.where(keys == HOT, keys, -1), 1)[0], 2)
    return found


def _keys(rows: int, is_hot: bool) -> Any:
    """Return a key a row; every second row of each side is of the hot one."""
    dice = np.random.default_rng(7)
    keys = dice.integers(1, KEYS, rows)
    return np.where(is_hot & (np.arange(rows) // 2 % 2 == 0), HOT, keys)


def _count(keys: Any, _: int) -> tuple[float, int]:
    query = counted._query(WINDOW_US["count"])
    shape, empty = shape_of(query), {"part": pa.array([], pa.string()), "content": [], "leave_us": []}
    state, answered, spent = pa.table(empty), None, 0.0
    for number, first in enumerate(range(0, len(keys), BATCH), 1):
        own = keys[first : first + BATCH]
        rows, until = (
            _with_keys(counted._rows(first, len(own), STEP_US), "k_0", own),
            (first + BATCH) * STEP_US,
        )
        before = StateBefore("skew", number, str(number), lambda *_: [])
        begun = time.process_time()
        answer = BucketAggregate(query, shape, before, answered, until)(0, rows, state)
        spent += time.process_time() - begun
        state, answered = _counters(answer), until
    return spent, 0


def _pairs(keys: Any, _: int) -> tuple[float, int]:
    query = paired._query(WINDOW_US["pairs"])
    assert isinstance(query.condition, Equality)
    task = partial(BucketJoin, query, newest_us=(None, None))
    empty = {"part": pa.array([], pa.string()), "content": [], "leave_us": []}
    state, spent, pairs = pa.table(empty), 0.0, 0
    for number, first in enumerate(range(0, len(keys), BATCH), 1):
        own = keys[first : first + BATCH]
        rows = paired._rows(first, len(own), ROWS)
        times = {
            name: pa.array(np.arange(first, first + len(own)) * STEP_US)
            for name in ("event_us", "arrival_us")
        }
        for name, column in times.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        rows = _with_keys(rows, "key", own)
        before = StateBefore("skew", number, str(number), lambda *_: [])
        begun = time.process_time()
        answer = task(before)(0, rows, state)
        spent += time.process_time() - begun
        pairs += answer.rows[PAIR].num_rows
        state = _counters(answer)
    return spent, pairs


def _with_keys(rows: pa.Table, name: str, keys: Any) -> pa.Table:
    """Return rows under these keys, without those of other buckets, which have none."""
    keyed = rows.set_column(rows.schema.get_field_index(name), name, pa.array(keys))
    return keyed.filter(pa.array(keys >= 0))


def _counters(result: BucketResult) -> pa.Table:
    own = result.rows[STATE]
    return own.filter(pc.or_(pc.is_null(own["leave_us"]), pc.is_null(own["content"])))

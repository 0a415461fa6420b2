"""Batches cut into other buckets than those before them, without Spark: answers and log are those of one bucket."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.queries.aggregate.bucket import PART
from lakehouse.queries.aggregate.rows import buckets_of
from lakehouse.queries.runtime.tasks.bucket import LOG, BucketResult
from tests.queries.aggregate.test_bucket import METHODS, query, runs, task
from tests.queries.rescaled_steps import Rescaled, rows_of_buckets

BUCKETS = st.sampled_from([1, 2, 3, 4, 6])


@pytest.mark.slow
@METHODS
@settings(max_examples=20, deadline=None)
@given(run=runs(), data=st.data())
def test_whatever_the_buckets_of_batches_are_answers_and_log_are_those_of_one(
    method: str, run: Any, data: st.DataObject
) -> None:
    asked = query(method)

    def place(rows: pa.Table, buckets: int) -> pa.Table:
        own = buckets_of(asked, rows, buckets)
        return rows.append_column("bucket", pa.array(own, pa.int32()))

    one, many = (Rescaled(place, partial(task, asked)) for _ in range(2))
    for rows, answered, until in run:
        times = {"answered": answered, "until": until}
        Rescaled.end_process()
        expected = one.run(rows, 1, **times)
        Rescaled.end_process()
        buckets = data.draw(BUCKETS)
        if data.draw(st.booleans()):
            many.run(rows.slice(0, data.draw(st.integers(0, rows.num_rows))), buckets, is_lost=True, **times)
        found = many.run(rows, buckets, **times)
        assert added(found) == added(expected)
        assert sorted(log(found)) == sorted(log(expected))


def added(results: Mapping[int, BucketResult]) -> dict[Any, list[Any]]:
    """Return what buckets found for each tick and group, added up; extremes are the highest."""
    found: dict[Any, list[Any]] = defaultdict(lambda: [0, 0, -np.inf])
    for row in rows_of_buckets(results, PART).to_pylist() if results else ():
        sums = found[row["tick_us"], row["g_device"]]
        sums[0] += row["results"]
        sums[1] += sum(row[f"counted_{number}"] + row[f"high_{number}"] for number in range(2))
        sums[2] = max(sums[2], -np.inf if row["extreme_2"] is None else row["extreme_2"])
    return found


def log(results: Mapping[int, BucketResult]) -> list[Any]:
    """Return the rows that were logged."""
    if not results:
        return []
    rows = rows_of_buckets(results, LOG)
    return list(zip(*(rows[name].to_pylist() for name in ("side", "row", "horizon_us")), strict=True))

"""Batches cut into other buckets than those before them, without Spark: answers and log are those of one bucket."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.queries.aggregate.rows import buckets_of
from tests.queries.aggregate.test_bucket import METHODS, SCHEMA, query, runs, task
from tests.queries.rescaled_steps import Rescaled

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

    one, many = (Rescaled(place, partial(task, asked), SCHEMA) for _ in range(2))
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


def added(answer: pa.Table) -> dict[Any, list[Any]]:
    """Return what buckets found for each tick and group, added up; extremes are the highest."""
    found: dict[Any, list[Any]] = defaultdict(lambda: [0, 0, -np.inf])
    rows = answer.filter(pc.equal(answer["kind"], "part")).to_pylist()
    for row in rows:
        sums = found[row["tick_us"], row["g_device"]]
        sums[0] += row["results"]
        sums[1] += sum(row[f"counted_{number}"] + row[f"high_{number}"] for number in range(2))
        sums[2] = max(sums[2], -np.inf if row["extreme_2"] is None else row["extreme_2"])
    return found


def log(answer: pa.Table) -> list[Any]:
    """Return the rows that were logged."""
    rows = answer.filter(pc.equal(answer["kind"], "log"))
    return list(zip(*(rows[name].to_pylist() for name in ("side", "row", "horizon_us")), strict=True))

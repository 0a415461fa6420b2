"""Figures of the log that batches keep say where a repair has to look, whatever parts the log was written in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.queries.runtime.logged import Logged
from lakehouse.queries.runtime.tasks.by_bucket import joined_figures, log_figures

REACH = 50
ROWS = st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 100), st.booleans()), max_size=300)


def log_of(rows: list[tuple[int, int, bool]]) -> pa.Table:
    times = [time for time, _, _ in rows]
    horizons = [time + more if is_missed else None for time, more, is_missed in rows]
    what = ["missed" if is_missed else "refused" for _, _, is_missed in rows]
    types = {"what": pa.string(), "event_us": pa.int64(), "horizon_us": pa.int64()}
    return pa.table([what, times, horizons], schema=pa.schema(types))


@pytest.mark.parametrize("to_horizon", [False, True])
@given(batches=st.lists(st.lists(ROWS, max_size=3), max_size=3))
def test_a_repair_looks_around_each_row_that_some_part_of_the_log_has(
    to_horizon: bool, batches: list[list[list[tuple[int, int, bool]]]]
) -> None:
    metrics, missed = [], list[tuple[int, int]]()
    for number, parts in enumerate(batches):
        figures = joined_figures([log_figures(log_of(rows)) for rows in parts])
        own = [(time, time + more) for rows in parts for time, more, is_missed in rows if is_missed]
        metrics.append({"batch": number, "bucket": number % 2, "missed": len(own), **figures})
        missed += own
        assert len(figures["missed_us"]) <= 128
        assert figures["horizon_us"] == max((horizon for _, horizon in own), default=None)

    logged = Logged.of(metrics, REACH, to_horizon)

    assert logged.rows == len(missed)
    assert logged.buckets == {(row["batch"], row["bucket"]) for row in metrics if row["missed"]}
    assert logged.horizon_us == {row["batch"]: row["horizon_us"] for row in metrics if row["missed"]}
    first, last = np.array([*logged.ranges], np.int64).reshape(-1, 2).T
    assert np.all(first[1:] > last[:-1])
    for time, horizon in missed:
        at = np.searchsorted(first, time, "right") - 1
        reached = min(time + REACH, horizon) if to_horizon else time + REACH
        assert first[at] <= time - REACH and reached <= last[at]


def test_few_rows_far_apart_stay_apart() -> None:
    figures = log_figures(log_of([(time * 10**6, 0, True) for time in range(60)]))

    logged = Logged.of([{"batch": 1, "bucket": 0, "missed": 60, **figures}], REACH, to_horizon=False)

    assert logged.ranges == [(time * 10**6 - REACH, time * 10**6 + REACH) for time in range(60)]

"""A bucket's state in segments: whatever process takes a batch, and however often, it is as if one had taken all."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.queries.aggregate.bucket import PART, BucketAggregate, HeldAggregate
from lakehouse.queries.aggregate.query import AggregateQuery, Input, Measure, shape_of
from lakehouse.queries.kind import Output
from lakehouse.queries.runtime.tasks.bucket import LOG, BucketResult, StateBefore
from tests.oracles.queries.colliding_keys import PAIRS_OF_TEXTS
from tests.queries.state_steps import Steps

EVERY, SLACK = 4, 12
ROW = st.tuples(st.integers(0, 1), st.integers(-30, 1), st.integers(0, 2), st.integers(-4, 4) | st.none())
PROCESSES = st.integers(0, 2)
# The first two have one hash.
TEXTS = (*PAIRS_OF_TEXTS[0], None)
METHODS = pytest.mark.parametrize("method", ["factorised", "incremental", "multiway"])


def query(method: str = "factorised") -> AggregateQuery:
    """Return a query by device; ``incremental`` has no extremes."""
    sides = tuple(Input(name, name, 10, ((0, "k"),), ("v",)) for name in "ab")
    measures = [Measure("n", "count"), Measure("total", "sum", 1, 0), Measure("known", "count", 0, 0)]
    if method != "incremental":
        measures.append(Measure("most", "max", 0, 0))
    how = (None, EVERY, SLACK, None, None, method, True, "", False)
    return AggregateQuery("q", "", "", sides, (Output("device", 0, "d"),), tuple(measures), *how)  # type: ignore[arg-type]


def task(asked: AggregateQuery, before: StateBefore, answered: int | None, until: int | None) -> Any:
    """Return what a task does."""
    return BucketAggregate(asked, shape_of(asked), before, answered, until)


def rows_of(drawn: list[Any], first: int) -> pa.Table:
    """Return raw rows, of which the numbers begin with ``first``; time goes on by one a row."""
    side, behind, key, value = zip(*drawn, strict=True) if drawn else ((),) * 4
    numbers = range(first, first + len(drawn))
    group = [TEXTS[each] if own == 0 else None for each, own in zip(key, side, strict=True)]
    return pa.table(
        {
            "side": pa.array(side, pa.int32()),
            "event_us": pa.array([at + by for at, by in zip(numbers, behind, strict=True)], pa.int64()),
            "row": pa.array(numbers, pa.int64()),
            "is_unusable": pa.array([False] * len(drawn), pa.bool_()),
            "is_refused": pa.array([False] * len(drawn), pa.bool_()),
            "k_0": pa.array([TEXTS[each // 2] for each in key], pa.string()),
            **{f"v_{own}_0": pa.array(value, pa.float64()) for own in (0, 1)},
            "g_device": pa.array(group, pa.string()),
        }
    )


def found(result: BucketResult) -> list[Any]:
    """Return answers, log and metrics, but for the bytes of the state, in an order of their own."""
    rows = [(name, row) for name in (PART, LOG) for row in result.rows[name].to_pylist()]
    metrics = {name: value for name, value in result.metrics.items() if name != "bytes"}
    return sorted([*rows, ("metrics", metrics)], key=repr)


@st.composite
def runs(draw: Any) -> list[tuple[pa.Table, int | None, int | None]]:
    """Batches of rows, with how far ticks were answered and are to be."""
    drawn, first, answered = draw(st.lists(ROW, max_size=60)), 0, None
    calls = list[tuple[pa.Table, int | None, int | None]]()
    for size in draw(st.lists(st.sampled_from([0, 3, 8, 15]), min_size=1, max_size=6)):
        rows = rows_of(drawn[first : first + size], first)
        first += rows.num_rows
        until = draw(st.sampled_from([answered, first, first]))
        calls.append((rows, answered, until))
        answered = until
    return calls


@pytest.mark.slow
@METHODS
@settings(max_examples=30, deadline=None)
@given(run=runs(), data=st.data())
def test_processes_that_come_go_and_lag_do_what_one_does(method: str, run: Any, data: st.DataObject) -> None:
    one, many = (Steps(partial(task, query(method))) for _ in range(2))
    for rows, answered, until in run:
        times = {"answered": answered, "until": until}
        expected = one.run(rows, 0, **times)
        if data.draw(st.booleans()):
            # An attempt that dies before it is appended; what it has in memory stays there.
            part = rows.slice(0, data.draw(st.integers(0, rows.num_rows)))
            many.run(part, data.draw(PROCESSES), is_lost=True, **times)
        if data.draw(st.booleans()):
            many.end(data.draw(PROCESSES))
        if data.draw(st.booleans()):
            many.drop_ended()
        assert found(many.run(rows, data.draw(PROCESSES), **times)) == found(expected)


@pytest.mark.slow
@METHODS
@settings(max_examples=25, deadline=None)
@given(run=runs())
def test_the_state_restored_at_any_point_is_the_state_that_one_process_has(method: str, run: Any) -> None:
    steps = Steps(partial(task, query(method)))
    for rows, answered, until in run:
        steps.run(rows, 0, answered=answered, until=until)
        restored = steps.copy()
        for each, process in ((steps, 0), (restored, 1)):
            each.run(rows_of([], 0), process, answered=until, until=until)
        (kept,), (other,) = steps.processes[0].values(), restored.processes[1].values()
        assert _state_of(other.held) == _state_of(kept.held)
        assert other.bytes == kept.bytes


def _state_of(held: HeldAggregate) -> tuple[int, list[str]]:
    """Return the last tick and the rows that are held, in an order of their own; numbers of values are a process's."""
    rows = held.online.rows()
    names = [field.name for field in fields(rows) if field.name not in ("keys", "group")]
    columns = [getattr(rows, name).tolist() for name in names]
    columns += [each.to_pylist() for each in held.codes.values(rows).values()]
    return held.online.last_us, sorted(map(repr, zip(*columns, strict=True)))

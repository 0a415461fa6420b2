"""A bucket and its repairs without Spark: in any split into batches, each pair is found once, online or by a repair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.queries.pairs.bucket import PAIR
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.repair import BucketRepair
from lakehouse.queries.pairs.rows import as_batch
from lakehouse.queries.runtime.recall.needed_slack import NEEDED
from lakehouse.queries.runtime.tasks.bucket import LOG, BucketResult
from tests.oracles.late_join.nested_loop import NestedLoop
from tests.queries.pairs.test_bucket import WINDOW, query, rows_of, runs, task
from tests.queries.state_steps import Steps


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(run=runs(), data=st.data())
def test_online_and_repaired_pairs_are_all_pairs_each_once(run: Any, data: st.DataObject) -> None:
    asked, batches = run
    yardstick = NestedLoop(asked.condition, WINDOW)
    steps = Steps(partial(task, asked))
    answers: list[BucketResult] = []
    repaired: list[BucketResult] = []
    through = 0
    for number, rows in enumerate(batches, start=1):
        answers.append(steps.run(rows, 0))
        if number == len(batches) or data.draw(st.booleans()):
            repaired.append(repair(asked, batches[:number], answers, through))
            through = number

    online, added = pairs_of(answers), pairs_of(repaired)
    expected = Counter[tuple[int, int]]()
    for rows in batches:
        found = yardstick.process(as_batch(rows)).pairs
        expected.update(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert online + added == expected
    assert [each.metrics["pairs"] for each in answers] == [len(each.rows[PAIR]) for each in answers]


def test_a_log_without_edges_is_repaired_from_stream_time_less_the_window() -> None:
    asked, steps = query(scale=10_000), Steps(partial(task, query(scale=10_000)))
    rows = rows_of([(n % 2, -25 if n % 5 == 0 else 0, 0, 1, "a", 0) for n in range(200)], 0)
    for name in ("event_us", "arrival_us"):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, pc.multiply(rows[name], 10_000))
    answer = steps.run(rows, 0)
    log = answer.rows[LOG]
    log = log.drop_columns(["edge_us"]).append_column("edge_us", pa.nulls(log.num_rows, pa.int64()))
    unknown = replace(answer, rows={**answer.rows, LOG: log})

    repaired, other = (repair(asked, [rows], [each], 0) for each in (answer, unknown))

    assert repaired.rows[NEEDED].num_rows > 1
    assert all(other.rows[name].to_pylist() == rows.to_pylist() for name, rows in repaired.rows.items())


def repair(
    asked: PairsQuery, batches: Sequence[pa.Table], answers: Sequence[BucketResult], after: int
) -> BucketResult:
    """Return what a repair of the batches after ``after`` finds; all that batches took in lies in raw."""
    taken = [
        rows.append_column("taken", pa.array([number] * rows.num_rows, pa.int64()))
        for number, rows in enumerate(batches)
    ]
    logs = [answer.rows[LOG] for answer in answers]
    refused = [log.filter(pc.equal(log["what"], "refused")) for log in logs]
    missed = [log.filter(pc.equal(log["what"], "missed")) for log in logs[after:]]
    # Rows that a test makes of nothing have columns without a type.
    late = pa.concat_tables([*refused, *missed], promote_options="permissive")
    work = BucketRepair(asked, 1, time_of(answers), whole_from_us=0)
    rows = pa.concat_tables(taken, promote_options="permissive")
    answer = work(0, pa.concat_tables([rows, late], promote_options="permissive"))
    return answer or BucketResult()


def pairs_of(found: Iterable[BucketResult]) -> Counter[tuple[int, int]]:
    """Return left and right rows of pairs."""
    pairs = Counter[tuple[int, int]]()
    for rows in (each.rows[PAIR] for each in found if PAIR in each.rows):
        # As ``rows_of`` numbers rows and items.
        ids = (pc.add(rows[name], 1000).to_pylist() for name in ("left_item", "right_item"))
        pairs.update(zip(*ids, strict=True))
    return pairs


def time_of(results: Iterable[BucketResult]) -> int:
    """Return the newest stream time of some batches, 0 for none."""
    times: list[Any] = [each.metrics["time_us"] for each in results]
    return max((time for time in times if time is not None), default=0)

"""A bucket and its repairs without Spark: in any split into batches, each pair is found once, online or by a repair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.repair import BucketRepair
from lakehouse.queries.pairs.rows import as_batch
from lakehouse.queries.runtime.recall.needed_slack import COUNTS
from tests.oracles.late_join.nested_loop import NestedLoop
from tests.queries.pairs.test_bucket import SCHEMA, WINDOW, query, rows_of, runs, task
from tests.queries.state_steps import Steps

REPAIRED = pa.schema(
    [
        *(
            SCHEMA.field(name)
            for name in ("kind", "event_us", "left_us", "right_us", "left_row", "right_row", "wait_us")
        ),
        *(pa.field(name, pa.int64()) for name in COUNTS),
        *(SCHEMA.field(name) for name in ("bucket", "o_asked", "o_answered")),
    ]
)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(run=runs(), data=st.data())
def test_online_and_repaired_pairs_are_all_pairs_each_once(run: Any, data: st.DataObject) -> None:
    asked, batches = run
    yardstick = NestedLoop(asked.condition, WINDOW)
    steps = Steps(partial(task, asked))
    answers: list[pa.Table] = []
    repaired: list[pa.Table] = []
    through = 0
    for number, rows in enumerate(batches, start=1):
        answers.append(steps.run(rows, 0))
        if number == len(batches) or data.draw(st.booleans()):
            repaired.append(repair(asked, batches[:number], answers, through))
            through = number

    online = pairs_of([each.filter(pc.equal(each["kind"], "pair")) for each in answers])
    added = pairs_of([each.filter(pc.equal(each["kind"], "pair")) for each in repaired])
    expected = Counter[tuple[int, int]]()
    for rows in batches:
        found = yardstick.process(as_batch(rows)).pairs
        expected.update(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert online + added == expected
    assert sum(metrics["f_pairs"] for metrics in metrics_of(answers)) == online.total()


def test_a_log_without_edges_is_repaired_from_stream_time_less_the_window() -> None:
    asked, steps = query(scale=10_000), Steps(partial(task, query(scale=10_000)))
    rows = rows_of([(n % 2, -25 if n % 5 == 0 else 0, 0, 1, "a", 0) for n in range(200)], 0)
    for name in ("event_us", "arrival_us"):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, pc.multiply(rows[name], 10_000))
    answer = steps.run(rows, 0)
    unknown = answer.drop_columns(["edge_us"]).append_column("edge_us", pa.nulls(answer.num_rows, pa.int64()))

    repaired, other = (repair(asked, [rows], [each], 0) for each in (answer, unknown))

    assert sum(pc.equal(repaired["kind"], "needed").to_pylist()) > 1
    assert other.to_pylist() == repaired.to_pylist()


def repair(
    asked: PairsQuery, batches: Sequence[pa.Table], answers: Sequence[pa.Table], after: int
) -> pa.Table:
    """Return what a repair of the batches after ``after`` finds; all that batches took in lies in raw."""
    taken = [
        rows.append_column("taken", pa.array([number] * rows.num_rows, pa.int64()))
        for number, rows in enumerate(batches)
    ]
    logs = [answer.filter(pc.equal(answer["kind"], "log")) for answer in answers]
    refused = [log.filter(pc.equal(log["part"], "refused")) for log in logs]
    missed = [log.filter(pc.equal(log["part"], "missed")) for log in logs[after:]]
    late = pa.concat_tables([*refused, *missed])
    late = late.append_column("what", late["part"])
    times = [row["f_time_us"] for row in metrics_of(answers) if row["f_time_us"] is not None]
    work = BucketRepair(asked, REPAIRED, 1, max(times, default=0), whole_from_us=0)
    rows = pa.concat_tables(taken, promote_options="permissive")
    answer = work(0, pa.concat_tables([rows, late], promote_options="permissive"))
    return REPAIRED.empty_table() if answer is None else answer


def pairs_of(found: Sequence[pa.Table]) -> Counter[tuple[int, int]]:
    """Return left and right rows of pairs."""
    columns = [pa.concat_tables(found)[name].to_pylist() for name in ("left_row", "right_row")]
    return Counter(zip(*columns, strict=True))


def metrics_of(answers: Sequence[pa.Table]) -> list[dict[str, Any]]:
    """Return what the bucket says of each batch."""
    return [row for each in answers for row in each.filter(pc.equal(each["kind"], "metrics")).to_pylist()]

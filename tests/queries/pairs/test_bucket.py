"""A bucket's state in segments: whatever process takes a batch, and however often, it is as if one had taken all."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.contract import Clock
from lakehouse.queries.kind import Output
from lakehouse.queries.pairs.bucket import BucketJoin
from lakehouse.queries.pairs.query import PairSide, PairsQuery
from lakehouse.queries.runtime.tasks import bucket as bucket_state
from lakehouse.queries.runtime.tasks.bucket import BucketResult, Segment, SegmentFiles, StateBefore
from lakehouse.storage.tables.table_log import FileFacts
from tests.algorithms.late_join.streams import CONDITIONS
from tests.oracles.late_join.whole_join import snapshot_of
from tests.queries.state_steps import Steps

WINDOW = 6
ROW = st.tuples(
    *(st.integers(0, 1), st.integers(-25, 2), st.integers(0, 3), st.integers(-4, 4), st.sampled_from("abc")),
    st.sampled_from([0, 0, 0, 1, None]),
)
PROCESSES = st.integers(0, 2)


def query(
    condition: str = "equality",
    recall: float = 0.8,
    policy: str = "needed_slack",
    scale: int = 1,
    spare: int = 0,
) -> PairsQuery:
    """Return a query with a column of each side; times are ``scale`` times as long. It spares no rows of itself."""
    sides = PairSide("a", "a", ("k",), ("x", "y")), PairSide("b", "b", ("k",), ("x", "y"))
    outputs = Output("asked", 0, "name"), Output("answered", 1, "value")
    clock, sources = Clock(ahead_of_streams_us=40 * scale), (("s",), ("s",))
    how = (recall, 16 * scale, 4 * scale, clock, policy, sources if policy == "per_source" else None, spare)
    return PairsQuery("q", "", "", sides, WINDOW * scale, CONDITIONS[condition], outputs, *how)  # type: ignore[arg-type]


def task(asked: PairsQuery, before: StateBefore, newest: Any = (None, None)) -> BucketJoin:
    """Return what a task does."""
    return BucketJoin(asked, before, newest)


def rows_of(drawn: list[Any], first: int) -> pa.Table:
    """Return raw rows, of which the numbers begin with ``first``; time goes on by one a row."""
    side, behind, key, x, name, source = zip(*drawn, strict=True) if drawn else ((),) * 6
    numbers = range(first, first + len(drawn))
    return pa.table(
        {
            "bucket": pa.array([0] * len(drawn), pa.int32()),
            "side": pa.array(side, pa.int32()),
            "event_us": pa.array([at + by for at, by in zip(numbers, behind, strict=True)], pa.int64()),
            "arrival_us": pa.array(numbers, pa.int64()),
            "row": pa.array([1000 + number for number in numbers], pa.int64()),
            "key": pa.array([None if each == 3 else each for each in key], pa.int64()),
            "source": pa.array(source, pa.int64()),
            "n_0": pa.array(x, pa.float64()),
            "n_1": pa.array(x, pa.float64()),
            **{name: pa.array([1] * len(drawn), pa.int64()) for name in ("batch", "source_line")},
            **{"source_file": pa.array([""] * len(drawn)), "source_item": pa.array(numbers, pa.int64())},
            "o_asked": pa.array(
                [text if own == 0 else None for text, own in zip(name, side, strict=True)], pa.string()
            ),
            "o_answered": pa.array(
                [value if own else None for value, own in zip(x, side, strict=True)], pa.float64()
            ),
        }
    )


def found(results: list[BucketResult], *names: str) -> list[Any]:
    """Return the rows for these tables; metrics are a row, but for the bytes of the state."""
    found = []
    for each in results:
        metrics = {name: value for name, value in each.metrics.items() if name != "bytes"}
        rows = {name: table.to_pylist() for name, table in each.rows.items()} | {"metrics": [metrics]}
        found += [row for name in names for row in rows[name]]
    return found


@st.composite
def runs(draw: Any) -> tuple[PairsQuery, list[pa.Table]]:
    """A query of any condition and policy, and batches of rows."""
    drawn = draw(st.lists(ROW, max_size=60))
    cuts = sorted(draw(st.lists(st.integers(0, len(drawn)), max_size=6)))
    ends = list(zip([0, *cuts], [*cuts, len(drawn)], strict=True))
    batches = [rows_of(drawn[start:end], start) for start, end in ends]
    policy = draw(st.sampled_from(["needed_slack", "per_source"]))
    spare = draw(st.sampled_from([0, 8]))
    return query(draw(st.sampled_from(sorted(CONDITIONS))), policy=policy, spare=spare), batches


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(run=runs(), data=st.data())
def test_processes_that_come_go_and_lag_do_what_one_does(run: Any, data: st.DataObject) -> None:
    asked, batches = run
    one, many = (Steps(partial(task, asked)) for _ in range(2))
    for rows in batches:
        expected = one.run(rows, 0)
        if data.draw(st.booleans()):
            # An attempt that dies before it is appended; what it has in memory stays there.
            many.run(
                rows.slice(0, data.draw(st.integers(0, rows.num_rows))), data.draw(PROCESSES), is_lost=True
            )
        if data.draw(st.booleans()):
            many.end(data.draw(PROCESSES))
        if data.draw(st.booleans()):
            many.drop_ended()
        answer = many.run(rows, data.draw(PROCESSES))
        names = "pair", "log", "metrics"
        assert found([answer], *names) == found([expected], *names)


@settings(max_examples=40, deadline=None)
@given(run=runs(), data=st.data())
def test_the_state_restored_at_any_point_is_the_state_that_one_process_has(
    run: Any, data: st.DataObject
) -> None:
    asked, batches = run
    steps = Steps(partial(task, asked))
    for rows in batches:
        steps.run(rows, 0)
        restored = steps.copy()
        restored.run(rows_of([], 0), 1)
        steps.run(rows_of([], 0), 0)
        (kept,), (other,) = steps.processes[0].values(), restored.processes[1].values()
        assert snapshot_of(other.held.join) == snapshot_of(kept.held.join)
        assert (other.held.following, other.bytes) == (kept.held.following, kept.bytes)


def test_a_source_that_is_silent_over_several_batches_is_waited_for_whoever_takes_them() -> None:
    """Of eight sources, a row each 10 ms, the last falls silent for a second and then sends what it held back.

    It sends an eighth of the rows, more than a recall of 0.95 allows to be missed.
    """
    asked, other = (
        query(policy=policy, recall=0.95, scale=300_000) for policy in ("per_source", "needed_slack")
    )
    rows, ends = rows_with_a_silence(), [0, 150, 310, 330, 370, 395, 600]
    cut = [rows.slice(start, end - start) for start, end in pairwise(ends)]
    one, many, usual = (Steps(partial(task, each)) for each in (asked, asked, other))
    answers = [one.run(each, 0) for each in cut]
    restarted = [many.run(each, number) for number, each in enumerate(cut)]
    at_once = Steps(partial(task, asked)).run(rows, 0)
    for name in ("pair", "log"):
        expected = found(answers, name)
        assert found(restarted, name) == found([at_once], name) == expected

    logged, more = (len(found(each, "log")) for each in (answers, [usual.run(rows, 0)]))
    assert 0 < 2 * logged < more


def test_a_silent_source_that_the_recall_allows_to_be_missed_is_not_waited_for() -> None:
    asked, other = (query(policy=policy, scale=300_000) for policy in ("per_source", "needed_slack"))
    logged, usual = (
        len(found([Steps(partial(task, each)).run(rows_with_a_silence(), 0)], "log"))
        for each in (asked, other)
    )

    assert 0 < usual == logged


def rows_with_a_silence() -> pa.Table:
    """Return 600 rows of eight sources in order of arrival; what the last sends from second 3 to 4 comes at 4."""
    rows = rows_of([(number // 4 % 2, 0, number % 3, 1, "a", number % 8) for number in range(600)], 0)
    number = np.arange(600)
    is_held = (number % 8 == 7) & (number >= 300) & (number < 400)
    times = {
        "event_us": number * 10_000,
        "arrival_us": np.where(is_held, 3_995_000 + number, number * 10_000),
    }
    for name, each in times.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(each))
    return rows.sort_by("arrival_us")


@settings(max_examples=40, deadline=None)
@given(run=runs())
def test_what_a_batch_holds_is_what_the_kernel_says(run: Any) -> None:
    asked, batches = run
    steps = Steps(partial(task, asked))
    for rows in batches:
        (figures,) = found([steps.run(rows, 0)], "metrics")
        (kept,) = steps.processes[0].values()
        assert figures["held"] == kept.held.join.held
        assert figures["most_held"] >= figures["held"]


def test_a_process_reads_only_the_batches_that_it_has_not_made() -> None:
    steps = Steps(partial(task, query()))
    row = (0, 0, 1, 1, "a", 0)
    for number, process in enumerate([0, 0, 1, 1, 0, 0]):
        steps.run(rows_of([row], number), process)
    # Process 1 begins with batch 3 and reads all before; process 0 comes back with 5 and has the state of 2.
    assert steps.reads == [0, 2]


def test_a_batch_writes_the_rows_that_entered_and_rows_that_leave_are_written_by_nobody() -> None:
    steps = Steps(partial(task, query(recall=0.5)))
    for start in range(0, 400, 40):
        drawn = [(number % 2, 0, number % 3, 1, "a", 0) for number in range(40)]
        steps.run(rows_of(drawn, start), 0)
    written = [[row for row in batch.to_pylist() if row["leave_us"] is not None] for batch in steps.batches]
    segments_of = [[row for row in rows if row["content"] is not None] for rows in written]
    assert all(len(rows) <= 16 for rows in segments_of)
    markers = {row["part"]: row["leave_us"] for row in written[-1] if row["content"] is None}
    assert all(row["leave_us"] < markers[row["part"]] for row in segments_of[0])
    before = sum(batch.num_rows for batch in steps.batches)
    steps.drop_ended()
    assert sum(batch.num_rows for batch in steps.batches) < before / 2


def test_files_give_the_segments_of_a_bucket_that_are_alive(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    def file_of(name: str, *rows: tuple[int, str, int | None, int, bytes | None]) -> FileFacts:
        bucket, part, leave, batch, content = zip(*rows, strict=True)
        columns = {"bucket": pa.array(bucket, pa.int32()), "part": part, "leave_us": leave, "batch": batch}
        pq.write_table(pa.table({**columns, "content": pa.array(content, pa.binary())}), tmp_path / name)
        ends = {"minValues": {"batch": min(batch)}, "maxValues": {"batch": max(batch)}}
        return FileFacts(tmp_path, name, 0, {}, json.dumps(ends))

    late = file_of("2", (0, "left", 7, 2, b"c"), (0, "left", 5, 2, None), (0, "policy", None, 2, b"p"))
    early = file_of("1", (0, "left", 4, 1, b"a"), (0, "left", 5, 1, b"b"), (1, "left", 9, 1, b"other"))
    read = SegmentFiles((late, early), batch=3)
    assert read(0, 0, {"left": 5}) == [Segment("left", 5, b"b"), Segment("left", 7, b"c")]
    assert read(0, 1, {"left": 5}) == [Segment("left", 7, b"c")]
    assert SegmentFiles((late, early), batch=2)(0, 0, {"left": 0}) == [
        Segment("left", 4, b"a"),
        Segment("left", 5, b"b"),
    ]


def test_what_is_not_asked_for_is_dropped_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(partial(task, query()))
    steps.run(rows_of([(0, 0, 1, 1, "a", 0)], 0), 0)
    monkeypatch.setattr(bucket_state, "_UNUSED_S", -1.0)
    bucket_state._KEPT.update(steps.processes[0])
    bucket_state._drop_unused()
    assert not bucket_state._KEPT

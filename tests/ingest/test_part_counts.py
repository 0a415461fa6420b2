"""Counts of parts of a batch add up to those of the whole, however it is cut."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ingest.part_counts import AcceptedCounts, Counting, RecordCounts
from lakehouse.storage.profiles import DAY_US, NO_DAY

if TYPE_CHECKING:
    from lakehouse.config.stream import Stream

STREAM = cast(
    "Stream",
    SimpleNamespace(
        step_us=100, all_columns={"temp": None, "count": None}, counters={"count"}, arrival_time=None
    ),
)
ROWS = st.lists(
    st.tuples(
        *(st.integers(0, 10**4), st.none() | st.integers(0, 9), st.integers(0, 3)),
        *(st.none() | st.floats(0, 1), st.none() | st.integers(-2, 2)),
    ),
    max_size=40,
)


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    names = ("event_us", "arrival_us", "source_file", "temp", "count")
    kinds = (pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.int64())
    by_file = sorted(rows, key=lambda row: row[2])
    columns = [[(*row[:2], str(row[2]), *row[3:])[n] for row in by_file] for n in range(len(names))]
    return pa.table([pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)], names)


def counted(*parts: pa.Table) -> AcceptedCounts:
    counting = Counting(STREAM, 5000)
    for part in parts:
        counting.add(part)
    return counting.total


@given(rows=ROWS, cut=st.integers(0, 40))
def test_rows_are_counted_alike_in_pieces(rows: list[tuple[Any, ...]], cut: int) -> None:
    whole = table(rows)
    assert counted(whole.slice(0, cut), whole.slice(cut)) == counted(whole)


@given(rows=ROWS)
def test_counts_of_files_add_up_in_any_order_and_come_back_from_their_text(
    rows: list[tuple[Any, ...]],
) -> None:
    whole = table(rows)
    of_files = [counted(table([row for row in rows if row[2] == file])) for file in (2, 0, 3, 1)]
    total = AcceptedCounts()
    for each in of_files:
        total = total + AcceptedCounts.of_text(each.as_text())
    assert total == counted(whole)
    times = [row[0] for row in rows]
    assert (total.accepted, total.low, total.high) == (
        len(rows),
        min(times, default=None),
        max(times, default=None),
    )
    assert total.missing["count"] == sum(row[4] is None or row[4] < 0 for row in rows)


@given(rows=ROWS)
def test_a_row_is_late_against_what_came_before_it_in_its_file_and_in_earlier_batches(
    rows: list[tuple[Any, ...]],
) -> None:
    late = 0
    rows = sorted(rows, key=lambda row: row[2])
    for number, (event, _, file, *_) in enumerate(rows):
        before = [row[0] for row in rows[:number] if row[2] == file]
        late += event < max([*before, 5000])
    assert counted(table(rows)).lateness.late == late


def test_records_are_counted_by_their_first_rows() -> None:
    rows = pa.table({"source_item": pa.array([0, 1, 0], pa.int32())})
    reasons = ["malformed", "bad_value", "read_before"]
    places, times = pa.array([0, 2, 0], pa.int32()), [None, DAY_US + 1, 0]
    rejected = pa.table({"source_item": places, "reason": reasons, "event_us": times})
    counts = RecordCounts.of(rows, rejected)
    assert counts + RecordCounts.of_text(counts.as_text()) == RecordCounts(
        *(12, 8, {"malformed": 2, "bad_value": 2}),
        read_before=2,
        days={str(NO_DAY): {"malformed": 2}, str(DAY_US): {"bad_value": 2}},
    )

"""The order in which a join takes rows in: by arrival; of rows without one, by batch and event time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.queries.pairs.rows import in_order

ROW = st.tuples(
    *(st.integers(1, 3), st.integers(0, 1), st.integers(0, 5), st.one_of(st.none(), st.integers(0, 5))),
    *(st.sampled_from("abc"), st.integers(1, 4)),
)


def rows_of(drawn: Sequence[tuple[int, int, int, int | None, str, int]]) -> pa.Table:
    batch, side, event, arrival, file, line = zip(*drawn, strict=True) if drawn else ((),) * 6
    return pa.table(
        {
            "batch": pa.array(batch, pa.int64()),
            "side": pa.array(side, pa.int32()),
            "event_us": pa.array(event, pa.int64()),
            "arrival_us": pa.array(arrival, pa.int64()),
            "source_file": pa.array(file, pa.string()),
            "source_line": pa.array(line, pa.int64()),
            "source_item": pa.array([0] * len(drawn), pa.int32()),
        }
    )


@given(st.lists(ROW, max_size=30, unique_by=lambda row: (row[0], row[1], row[4], row[5])))
def test_rows_without_an_arrival_come_by_batch_and_event_time(drawn: list[tuple[int, ...]]) -> None:
    rows = in_order(rows_of(drawn)).to_pylist()  # type: ignore[arg-type]

    without = [row for row in rows if row["arrival_us"] is None]
    assert without == rows[: len(without)]
    assert [(row["batch"], row["event_us"]) for row in without] == sorted(
        (row["batch"], row["event_us"]) for row in without
    )
    arrivals = [row["arrival_us"] for row in rows[len(without) :]]
    assert arrivals == sorted(arrivals)


@given(st.lists(ROW, max_size=30, unique_by=lambda row: (row[0], row[1], row[4], row[5])), st.data())
def test_some_of_the_rows_stand_in_the_order_in_which_all_of_them_do(
    drawn: list[tuple[int, ...]], data: st.DataObject
) -> None:
    some = data.draw(st.lists(st.sampled_from(drawn), unique=True)) if drawn else []
    chosen = in_order(rows_of(some)).to_pylist()  # type: ignore[arg-type]

    assert chosen == [row for row in in_order(rows_of(drawn)).to_pylist() if row in chosen]  # type: ignore[arg-type]


def test_one_file_of_each_device_in_a_batch_makes_no_row_late() -> None:
    """Files used to follow their names, so all of the first device came before the second one's first row."""
    devices = [(1, 0, minute, None, f"{device}.csv", minute + 1) for device in "ab" for minute in range(5)]

    times = in_order(rows_of(devices))["event_us"].to_pylist()

    assert times == sorted(times)

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import Entry, Extent, arrival_span_us, read_extent, read_ledger
from lakehouse.storage.tables.rollup_table import Marker, read_marker
from tests.serving.streams import write_delta


def test_finished_batches_come_in_order(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.ledger("s").mkdir(parents=True)
    columns = {"batch": [2, 1], "accepted": [0, 5], "min_event_us": [None, 3], "max_event_us": [None, 9]}
    write_delta(pa.table({**columns, "newest_us": [9, 9], "confirmed_us": [8, 8]}), home.ledger("s"))

    found = read_ledger(home, "s")

    assert found == [Entry(1, 5, 3, 9, 9, 8), Entry(2, 0, None, None, 9, 8)]
    assert (read_ledger(home, "s", after=1), read_ledger(home, "s", through=1)) == (found[1:], found[:1])
    assert read_extent(home, "s") == Extent(2, 3, 9, 8)


def test_the_rows_of_some_batches_arrived_between_their_commit_and_that_of_the_batch_before(
    tmp_path: Path,
) -> None:
    home, noon = Home(tmp_path), datetime(2026, 1, 1, 12, tzinfo=UTC)
    home.ledger("s").mkdir(parents=True)
    times = [noon + timedelta(seconds=seconds) for seconds in (40, 0, 100)]
    write_delta(pa.table({"batch": [2, 1, 3], "committed_at": times}), home.ledger("s"))

    spans = [arrival_span_us(home, "s", *span) for span in ((1, 2), (1, 3), (0, 3))]

    assert spans == [40_000_000, 100_000_000, None]


def test_no_ledger_is_no_batch(tmp_path: Path) -> None:
    assert (read_ledger(Home(tmp_path), "s"), read_extent(Home(tmp_path), "s")) == (
        [],
        Extent(0, None, None, None),
    )


def test_marker_is_the_greatest_of_its_rows_and_nodes_are_none(tmp_path: Path) -> None:
    assert read_marker(tmp_path) == Marker(None, 0)
    write_delta(
        pa.table({"level": [0, 1, 0, -1], "start_us": [5, 99, 7, None], "batch": [1, 9, 2, 9]}), tmp_path
    )

    assert read_marker(tmp_path) == Marker(7, 2)


def test_a_file_that_its_statistics_rule_out_is_not_opened(tmp_path: Path) -> None:
    write_delta(pa.table({"level": [0], "start_us": [5], "batch": [1]}), tmp_path)
    stats = json.dumps({"numRecords": 1, "minValues": {"level": 1}, "maxValues": {"level": 3}})
    nodes = {"path": "is-not-there.parquet", "size": 1, "dataChange": True, "stats": stats}
    (tmp_path / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"add": nodes}))

    assert read_marker(tmp_path) == Marker(5, 1)

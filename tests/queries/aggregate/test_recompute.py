from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.recompute import Affected
from lakehouse.queries.runtime.retracted import Retracted
from lakehouse.spark.noted_rows import NotedRows
from tests.queries.declared_streams import SECOND, aggregate_of, stream_of

# Windows of ten seconds and four, ticks at each second one.
TEXT = """SELECT COUNT(*) FROM a [10 SECONDS], b [4 SECONDS] WHERE a.device = b.device
EVERY 2 SECONDS SLACK 3 SECONDS"""
TIMES = (21, 25, 30)


@pytest.fixture
def query() -> AggregateQuery:
    return aggregate_of("q", TEXT, {name: stream_of(name=name) for name in "ab"})


@pytest.fixture
def wrong(tmp_path: Path) -> Retracted:
    """Rows of b at seconds 21, 25 and 30."""
    rows = {"correction": [1] * 3, "event_us": [time * SECOND for time in TIMES], "row": [1, 2, 3]}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    path = str(tmp_path / "rows.parquet")
    return Retracted(NotedRows((path,), 1), frozenset({1}), 21 * SECOND, 30 * SECOND + 1)


@pytest.mark.parametrize(
    ("last", "kept", "ticks", "alive", "gone"),
    [
        (100, None, [(22, 34)], None, 0),  # the state holds none of them
        (26, None, [(22, 26)], 24, 0),  # later ticks are answered by batches
        (None, None, [(22, 34)], -(2**62) // SECOND, 0),  # nothing is answered, all is held
        (100, 5, [(22, 34)], None, 0),
        (100, 15, [(26, 34)], None, 1),  # what counts at an earlier tick is deleted
        (100, 90, [], None, 3),
        (36, 30, [], None, 3),  # nor can the state be made again
    ],
)
def test_ticks_are_recomputed_as_far_as_raw_has_all_that_counts_at_them(
    query: AggregateQuery,
    wrong: Retracted,
    last: int | None,
    kept: int | None,
    ticks: list[tuple[int, int]],
    alive: int | None,
    gone: int,
) -> None:
    at = (None if each is None else each * SECOND for each in (last, kept))

    found = Affected.of(query, wrong, *at)

    assert [(low // SECOND, high // SECOND) for low, high in found.ranges] == ticks
    assert (found.gone, found.is_answered) == (gone, bool(ticks))
    assert (found.alive_us and found.alive_us // SECOND) == alive


def test_ticks_are_recomputed_piece_by_piece_and_the_state_last(
    query: AggregateQuery, wrong: Retracted
) -> None:
    affected = Affected.of(query, wrong, 26 * SECOND, None)

    pieces = list(affected.pieces(3, query.every_us))

    assert [[(low, high + 1) for low, high in piece.ranges] for piece in pieces[:-1]] == [
        [(22 * SECOND, 24 * SECOND)],
        [(24 * SECOND, 26 * SECOND)],
        [(26 * SECOND, 26 * SECOND + 1)],
    ]
    assert [piece.reads[0][0] for piece in pieces] == [first * SECOND for first in (12, 14, 16, 14)]
    assert [piece.alive_us for piece in pieces] == [None, None, None, 24 * SECOND]
    assert not pieces[-1].is_answered
    assert len(list(affected.pieces(1, query.every_us))) == 2


@given(st.lists(st.integers(0, 300), min_size=1, max_size=9, unique=True), st.integers(1, 5))
def test_each_tick_at_which_a_wrong_row_counts_is_recomputed_once_and_no_row_counts_in_two_ranges(
    times: list[int], number: int
) -> None:
    query = aggregate_of("q", TEXT, {name: stream_of(name=name) for name in "ab"})
    with tempfile.TemporaryDirectory() as folder:
        rows = {"correction": [1] * len(times), "event_us": [time * SECOND for time in times], "row": times}
        pq.write_table(pa.table(rows), f"{folder}/rows.parquet")
        noted = NotedRows((f"{folder}/rows.parquet",), 1)
        ends = min(times) * SECOND, max(times) * SECOND + 1
        affected = Affected.of(query, Retracted(noted, frozenset({1}), *ends), 400 * SECOND, None)

    ticks = [tick for tick in range(0, 400, 2) if any(time <= tick <= time + 4 for time in times)]
    found = [
        tick
        for piece in affected.pieces(number, query.every_us)
        for low, high in piece.ranges
        for tick in range(0, 400, 2)
        if low <= tick * SECOND <= high
    ]
    assert len(found) == len(set(found))
    assert set(found) >= set(ticks)
    # Ranges are joined where a row of the widest window, ten seconds, would count in both.
    assert all(any(time <= tick <= time + 4 + 10 for time in times) for tick in found)
    assert all(after[0] - before[1] > 10 * SECOND for before, after in pairwise(affected.ranges))

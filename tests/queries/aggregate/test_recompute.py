from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.recompute import Affected
from lakehouse.queries.runtime.retracted import Retracted
from lakehouse.storage.noted_rows import NotedRows
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
        (100, None, (22, 34), None, 0),  # the state holds none of them
        (26, None, (22, 26), 24, 0),  # later ticks are answered by batches
        (None, None, (22, 34), -(2**62) // SECOND, 0),  # nothing is answered, all is held
        (100, 5, (22, 34), None, 0),
        (100, 15, (26, 34), None, 1),  # what counts at an earlier tick is deleted
        (100, 90, (100, 34), None, 3),
        (36, 30, (40, 34), None, 3),  # nor can the state be made again
    ],
)
def test_ticks_are_recomputed_as_far_as_raw_has_all_that_counts_at_them(
    query: AggregateQuery,
    wrong: Retracted,
    last: int | None,
    kept: int | None,
    ticks: tuple[int, int],
    alive: int | None,
    gone: int,
) -> None:
    at = (None if each is None else each * SECOND for each in (last, kept))

    found = Affected.of(query, wrong, *at)

    assert (found.first_us // SECOND, found.last_us // SECOND, found.gone) == (*ticks, gone)
    assert (found.alive_us and found.alive_us // SECOND) == alive


def test_ticks_are_recomputed_piece_by_piece_and_the_state_last(
    query: AggregateQuery, wrong: Retracted
) -> None:
    affected = Affected.of(query, wrong, 26 * SECOND, None)

    pieces = list(affected.pieces(3, query.every_us))

    assert [(piece.first_us, piece.last_us + 1) for piece in pieces[:-1]] == [
        (22 * SECOND, 24 * SECOND),
        (24 * SECOND, 26 * SECOND),
        (26 * SECOND, 26 * SECOND + 1),
    ]
    assert [piece.reads[0] for piece in pieces] == [first * SECOND for first in (12, 14, 16, 14)]
    assert [piece.alive_us for piece in pieces] == [None, None, None, 24 * SECOND]
    assert not pieces[-1].is_answered
    assert len(list(affected.pieces(1, query.every_us))) == 2

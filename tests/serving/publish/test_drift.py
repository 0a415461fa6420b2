"""Daily comparison of shared versions with the tables: each difference is reported, and equality is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakehouse.queries.runtime.published_rows import RowsSnapshot
from lakehouse.serving.publish.drift import rows_drift
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.snapshot import StreamSnapshot
from lakehouse.serving.segments import row_store
from lakehouse.storage.layout import Home
from tests.queries.joins import SECOND, STREAMS, Joined, Pair
from tests.serving.publish.test_changes import batches, whole
from tests.serving.segments.test_row_store import Growing

Publish = Callable[..., int]


@pytest.fixture
def growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Growing]:
    """A join with four pairs, whose versions put each row into a segment."""
    monkeypatch.setattr(row_store, "OWN_ROWS", 0)
    growing = Growing(tmp_path / "join", Joined([], batches=2, repairs=(1,)))
    growing.add([Pair(61 * SECOND), Pair(63 * SECOND)])
    yield growing


@pytest.fixture
def published(growing: Growing, tmp_path: Path) -> Publish:
    def version(*streams: StreamSnapshot, anew: bool = False, **changed: Any) -> int:
        snapshot = RowsSnapshot.of(growing.home, growing.joined.query, STREAMS, None)
        told = replace(snapshot, row_table=growing.kept, **changed)
        return publish(Home(tmp_path / "home"), streams, queries=[told], in_full=anew).version

    return version


@pytest.fixture
def shared(growing: Growing, published: Publish) -> int:
    """The second version, which shares the rows of the first one."""
    published(batches=1, repairs=0)
    growing.add([Pair(70 * SECOND, batch=2), Pair(62 * SECOND, "repair")])
    return published()


@pytest.mark.slow
def test_versions_of_the_same_rows_do_not_differ(shared: int, published: Publish, tmp_path: Path) -> None:
    stream = whole("flat", batches(5, 1)[0], tmp_path / "stream")
    versions = [shared, published(stream, anew=True), published(stream, anew=True)]

    assert versions == [2, 3, 4]
    assert [rows_drift(Home(tmp_path / "home"), 2, 3), rows_drift(Home(tmp_path / "home"), 3, 4)] == [
        None
    ] * 2


def other_time(file: Path) -> None:
    rows = pq.read_table(file)
    answer = rows.schema.get_field_index("answer")
    pq.write_table(rows.set_column(answer, "answer", [[0.5] * rows.num_rows]), file)


def one_row_less(file: Path) -> None:
    pq.write_table(pq.read_table(file).slice(1), file)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (other_time, "pairs_answers has 4 rows where its tables hold 4, of which some are others"),
        (one_row_less, "pairs_answers has 4 rows where its tables hold 3"),
    ],
)
def test_rows_that_are_others_are_told(
    shared: int, published: Publish, growing: Growing, tmp_path: Path, harm: Callable[[Path], None], told: str
) -> None:
    harm(growing.kept / "part-1.parquet")

    assert rows_drift(Home(tmp_path / "home"), shared, published(anew=True)) == told


def test_sums_that_are_not_those_of_the_metrics_are_told(
    shared: int, published: Publish, tmp_path: Path
) -> None:
    anew = published(anew=True, missed=7)

    assert rows_drift(Home(tmp_path / "home"), shared, anew) == (
        "queries.missed of answers is not what its metrics come to"
    )


def test_versions_of_other_batches_are_not_compared(
    shared: int, published: Publish, growing: Growing, tmp_path: Path
) -> None:
    growing.add([Pair(75 * SECOND, batch=3)])

    assert rows_drift(Home(tmp_path / "home"), shared, published(anew=True, batches=3, missed=7)) is None

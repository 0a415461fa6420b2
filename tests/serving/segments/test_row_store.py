"""Rows of the ledger and of queries that versions share: any split of what came gives the version of all at once."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.queries.runtime.published_rows import RowsSnapshot
from lakehouse.serving.literals import parquet
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.serving.segments import merge, row_store
from lakehouse.serving.segments.segments import of_rows
from lakehouse.serving.versions.versions import segments_of
from lakehouse.storage.layout import Home
from tests.queries.joins import JOINS, SECOND, STREAMS, Joined, Logged, Pair

CONTENT = (
    "FROM pairs_answers ORDER BY ALL",
    "FROM completeness ORDER BY ALL",
    "FROM completeness_of('answers') ORDER BY ALL",
    # Its tables of metrics are written anew for each publish.
    "SELECT * EXCLUDE (table_id) FROM queries",
)
PUBLISHED_US = 40 * SECOND


def content(home: Home) -> list[list[tuple[Any, ...]]]:
    with open_published(home) as reader:
        return [reader.connection.execute(query).fetchall() for query in CONTENT]


def append(table: Path, rows: list[dict[str, Any]]) -> None:
    """Append a file and its commit, as a batch does."""
    version = len(list((table / "_delta_log").glob("*.json")))
    file = table / f"part-{version}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, JOINS), file)
    added = {"path": file.name, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 0}
    commit = {"add": {**added, "dataChange": True}}
    (table / "_delta_log" / f"{version:020d}.json").write_text(json.dumps(commit) + "\n")


class Growing:
    """A join whose pairs come by appends; all else of its tables is written anew each time, as its rows are."""

    def __init__(self, folder: Path, joined: Joined) -> None:
        self.home, self.joined, self.kept = Home(folder), replace(joined, pairs=[]), folder / "kept"
        self.joined.write(self.home)
        Path(self.home.pairs("answers")).rename(self.kept)

    def add(self, pairs: list[Pair]) -> None:
        """Append pairs, of finished batches or not."""
        append(self.kept, [self.joined._pair(pair) for pair in pairs])

    def publish(self, to: Home, **now: Any) -> None:
        """Publish what is finished now."""
        replace(self.joined, **now).write(self.home)
        snapshot = RowsSnapshot.of(self.home, self.joined.query, STREAMS, PUBLISHED_US)
        publish(to, [], queries=[replace(snapshot, row_table=self.kept)])


@pytest.mark.slow
@pytest.mark.parametrize("own", [0, 5, 100_000])
@settings(max_examples=6, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 60), st.booleans(), st.booleans()), min_size=2, max_size=6))
def test_any_split_of_publishes_is_one_publish(own: int, steps: list[tuple[int, bool, bool]]) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_store, "OWN_ROWS", own)
        patch.setattr(merge, "_RATIO", 2)
        growing = Growing(Path(name) / "join", Joined([]))
        shared = Home(Path(name) / "shared")
        repairs: list[int] = []
        for batch, (at, is_repaired, is_published) in enumerate(steps, start=1):
            # Some of what is appended is of a batch that goes on.
            pairs = [Pair((at + n) * SECOND, batch=batch + n % 2) for n in range(4)]
            growing.add(pairs)
            if is_repaired:
                repairs.append(batch)
                growing.add([Pair((at + 9) * SECOND, "repair", len(repairs))])
            now: dict[str, Any] = {
                "batches": batch,
                "repairs": list(repairs),
                "newest_us": (60 + 10 * batch) * SECOND,
            }
            now["late"] = [Logged((at + 2) * SECOND, (at + 5) * SECOND, batch)]
            if is_published or batch == len(steps):
                growing.publish(shared, **now)
                with open_published(shared) as reader:
                    assert len(of_rows(segments_of(reader.hold.path))) <= merge.MOST_SEGMENTS
        anew = Home(Path(name) / "anew")
        growing.publish(anew, **now)

        assert content(shared) == content(anew)


def test_a_publish_reads_what_came_and_no_file_before(tmp_path: Path) -> None:
    growing, to = Growing(tmp_path / "join", Joined([])), Home(tmp_path / "home")
    growing.add([Pair(61 * SECOND)])
    growing.publish(to)
    for file in growing.kept.glob("*.parquet"):
        file.unlink()
    growing.add([Pair(62 * SECOND, batch=2)])

    growing.publish(to, batches=2)

    assert [row[0].second for row in content(to)[0]] == [1, 2]


def test_what_is_appended_while_a_publish_reads_is_published_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing, to = Growing(tmp_path / "join", Joined([])), Home(tmp_path / "home")
    growing.add([Pair(61 * SECOND)])
    growing.publish(to)
    growing.add([Pair(62 * SECOND, batch=2)])
    beside = [Pair(63 * SECOND, batch=3)]

    def reading(files: Sequence[Path]) -> str:
        if beside:
            growing.add([beside.pop()])
        return parquet(files)

    # It is called when the files to read have been listed.
    monkeypatch.setattr(row_store, "parquet", reading)
    growing.publish(to, batches=2)
    growing.publish(to, batches=3)

    assert [row[0].second for row in content(to)[0]] == [1, 2, 3]

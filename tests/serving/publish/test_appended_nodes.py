from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from deltalake.transaction import CommitProperties, Transaction

from lakehouse.serving.publish import appended_nodes as news
from lakehouse.serving.publish.appended_nodes import is_due, nodes_since, with_changes
from lakehouse.serving.publish.publish import publish, shared_streams
from lakehouse.serving.publish.snapshot import StreamSnapshot
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import open_table
from tests.serving.publish.test_changes import batches, content, whole
from tests.serving.streams import Row


def commit(table: Path, number: int, *actions: dict[str, Any]) -> None:
    log = table / "_delta_log"
    log.mkdir(exist_ok=True)
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (log / f"{number:020d}.json").write_text(text, encoding="utf-8")


def append(table: Path, number: int, batch: int, file: str) -> None:
    """Commit the nodes of the batches up to and with one, as the job that builds rollups does."""
    mark = {"txn": {"appId": "tidemark-rollup-readings", "version": batch}}
    commit(table, number, mark, {"add": {"path": file.replace(" ", "%20")}})
    (table / file).touch()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of four batches in three appends, with a fold and a vacuum among them."""
    commit(tmp_path, 0, {"metaData": {}})
    append(tmp_path, 1, 1, "one.parquet")
    append(tmp_path, 2, 3, "two and three.parquet")
    commit(tmp_path, 3, {"remove": {"path": "one.parquet"}}, {"add": {"path": "folded.parquet"}})
    commit(tmp_path, 4, {"commitInfo": {"operation": "VACUUM END"}})
    append(tmp_path, 5, 4, "four.parquet")
    return tmp_path


def names(found: Sequence[Location] | None) -> list[str] | None:
    return None if found is None else [path.name for path in found]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (4, []),
        (3, ["four.parquet"]),
        (1, ["two and three.parquet", "four.parquet"]),
        (0, ["one.parquet", "two and three.parquet", "four.parquet"]),
    ],
)
def test_what_was_appended_since_a_batch_is_found_and_what_was_folded_is_not(
    table: Path, after: int, expected: list[str]
) -> None:
    assert names(nodes_since(table, "readings", after, 4)) == expected


def test_a_log_that_begins_later_than_the_batch_does_not_tell(table: Path) -> None:
    for number in range(3):
        (table / "_delta_log" / f"{number:020d}.json").unlink()

    assert nodes_since(table, "readings", 1, 4) is None
    assert nodes_since(table, "readings", 4, 4) == []


def test_a_commit_that_is_missing_does_not_tell(table: Path) -> None:
    (table / "_delta_log" / f"{3:020d}.json").unlink()

    assert nodes_since(table, "readings", 1, 4) is None


def test_a_file_that_is_gone_does_not_tell(table: Path) -> None:
    (table / "four.parquet").unlink()

    assert nodes_since(table, "readings", 3, 4) is None


def test_appends_that_do_not_reach_the_last_batch_do_not_tell(table: Path) -> None:
    assert nodes_since(table, "readings", 3, 5) is None
    assert nodes_since(table, "another", 0, 4) is None


def test_an_append_that_takes_files_away_does_not_tell(table: Path) -> None:
    mark = {"txn": {"appId": "tidemark-rollup-readings", "version": 5}}
    commit(table, 6, mark, {"remove": {"path": "one.parquet"}}, {"add": {"path": "four.parquet"}})

    assert nodes_since(table, "readings", 4, 5) is None


def append_batch(home: Home, rows: list[Row], folder: Path) -> StreamSnapshot:
    """Append the last batch of some rows to rollup and ledger as their jobs do; return the stream as made anew."""
    batch = rows[-1].batch
    new = whole("forever", [row for row in rows if row.batch == batch], folder / "new")
    mark = CommitProperties(app_transactions=[Transaction("tidemark-rollup-forever", batch)])
    assert new.nodes is not None
    write_deltalake(
        str(home.rollup("forever")), pq.read_table(new.nodes), mode="append", commit_properties=mark
    )
    told = whole("forever", rows, folder / "all")
    assert told.ledger is not None
    entries = pq.read_table(told.ledger)
    entry = entries.filter(pc.field("batch") == batch)
    write_deltalake(str(home.ledger("forever")), entry, mode="append")
    return told


def publish_news(home: Home, told: StreamSnapshot) -> int:
    """Publish what came; return how many files of the ledger were read for it."""
    one = replace(told, nodes=None, ledger=None, totals=())
    changed = with_changes(home, one, shared_streams(home, [one]))
    assert changed is not None and changed.changed is not None
    publish(home, [changed])
    return len(changed.changed.ledger)


@pytest.mark.slow
@pytest.mark.parametrize("is_merged", [False, True])
def test_of_a_ledger_a_publish_reads_the_files_that_came_and_shows_all_of_it(
    tmp_path: Path, is_merged: bool
) -> None:
    home, anew, arriving = Home(tmp_path / "home"), Home(tmp_path / "anew"), batches(5, 4)
    rows: list[Row] = []
    for step, batch in enumerate(arriving):
        rows += batch
        told = append_batch(home, rows, tmp_path / str(step))
        if step == 0:
            publish(home, [told])
        if step == 2:
            assert publish_news(home, told) == 2
    if is_merged:
        open_table(home.ledger("forever")).optimize.compact()
    assert publish_news(home, told) == 1
    publish(anew, [told])

    assert content(home) == content(anew)
    with open_published(home) as reader:
        found = reader.connection.execute("SELECT list(batch ORDER BY batch) FROM ledger").fetchall()
    assert found == [([1, 2, 3, 4],)]


def test_a_ledger_that_is_not_there_tells_nothing_and_one_without_news_is_not_asked(tmp_path: Path) -> None:
    home, (first, second) = Home(tmp_path / "home"), batches(5, 2)
    publish(home, [append_batch(home, first, tmp_path / "1")])
    told = append_batch(home, first + second, tmp_path / "2")
    Path(home.ledger("forever")).rename(tmp_path / "gone")

    known = shared_streams(home, [told])
    assert known["forever"].batch == 1
    assert with_changes(home, told, known) is None
    assert with_changes(home, told, {"forever": replace(known["forever"], batch=2)}) is not None


def test_all_is_made_anew_with_a_new_version_when_the_last_time_is_a_day_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again = publish(Home(tmp_path), []), publish(Home(tmp_path), [])
    found = [is_due(first), is_due(again)]
    monkeypatch.setattr(news, "ANEW_S", 0)

    assert [*found, is_due(first), is_due(again)] == [False, False, True, False]

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.serving.file.news import nodes_since


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


def names(found: list[Path] | None) -> list[str] | None:
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

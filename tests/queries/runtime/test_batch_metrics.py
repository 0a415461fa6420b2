from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from lakehouse.queries.runtime.batch_metrics import is_finished, is_open, read_batch_metrics
from lakehouse.storage.layout import Home
from tests.queries.joins import Joined, Logged, Pair

NAMES = ("batch", "bucket", "rows", "missed")


def test_nothing_is_finished_before_there_are_figures(tmp_path: Path) -> None:
    for home in (Home(tmp_path / "none"), Joined([Pair(1)], batches=0).write(Home(tmp_path / "begun"))):
        found = read_batch_metrics(home, "answers", NAMES)

        assert (found.finished, found.last_repair, found.repaired) == (0, 0, 0)
        assert (found.last_batch, found.total("rows"), found.total_repaired("found")) == ([], 0, 0)


def test_figures_are_added_up_over_batches_and_repairs(tmp_path: Path) -> None:
    late = [Logged(1, 2), Logged(1, 2, 3)]
    pairs = [Pair(1, "repair"), Pair(2, "repair", 2), Pair(3, "repair", 2)]
    found = read_batch_metrics(
        Joined(pairs, late, batches=3, repairs=(1, 2)).write(Home(tmp_path)), "answers", NAMES
    )

    assert (found.finished, found.last_repair, found.repaired) == (3, 2, 2)
    assert ([row["batch"] for row in found.last_batch], found.total("rows")) == ([3], 30)
    assert (found.total("missed"), found.total("missed", after=found.repaired)) == (2, 1)
    assert (found.total_repaired("found"), found.total_repaired("gone")) == (3, 2)


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        (is_finished(2, 1), [("online", 1), ("online", 2), ("repair", 1)]),
        (f"NOT {is_finished(2, 1)}", [("online", 3), ("repair", 2)]),
        (is_open(1, 2).replace("what", "'missed'"), [("online", 2), ("repair", 2)]),
    ],
)
def test_rows_are_told_apart_by_how_and_when_they_were_found(sql: str, kept: list[tuple[str, int]]) -> None:
    rows = "(VALUES ('online', 1), ('online', 2), ('online', 3), ('repair', 1), ('repair', 2)) AS rows(found, batch)"

    assert sorted(duckdb.sql(f"SELECT * FROM {rows} WHERE {sql}").fetchall()) == kept

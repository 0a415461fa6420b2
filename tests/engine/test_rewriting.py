"""Files written again without some of their rows: nothing else changes, and what has no such row stays as it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse.engine import engine_of
from lakehouse.engine.parts import commit_entries, sink_of
from lakehouse.engine.rewriting import remove_rows, rewrite_without
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_commits import create_table
from lakehouse.storage.tables.table_log import file_facts, files_between, newest_version, read_rows
from tests.support.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Even:
    """Says that even numbers go."""

    columns: tuple[str, ...] = ("n",)

    def __call__(self, rows: pa.Table) -> pa.Array:
        return pc.equal(pc.bit_wise_and(rows["n"], 1), 0)


@pytest.mark.parametrize("partition", [(), ("other",)])
def test_rows_go_and_files_without_them_stay(
    tmp_path: Path, session: SparkSession, partition: tuple[str, ...]
) -> None:
    table = tmp_path / "numbers"
    fields: list[dict[str, object]] = [
        {"name": n, "type": "long", "nullable": True, "metadata": {}} for n in ("n", "other")
    ]
    create_table(table, json.dumps({"type": "struct", "fields": fields}), partition=partition)
    odd, even, both = ([1, 3, None], [2, 4, 8], [5, 6, 7])
    for numbers in (odd, even, both):
        columns = {"n": numbers, "other": [sum(filter(None, numbers))] * 3}
        rows = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
        commit_entries(table, sink_of(table).write(rows))
    before, version = {str(path) for path in files_between(table, None)}, newest_version(table) or 0

    found = rewrite_without(engine_of(session), table, file_facts(table), Even(), "remove numbers")

    assert (len(found.removed), found.entries["rows"].to_pylist()) == (2, [2])
    commit_entries(table, found.entries, removed=found.removed)
    remove_rows(engine_of(session), Home(tmp_path), table, Even(), None, "remove them again")
    assert newest_version(table) == version + 1
    assert sorted(row["n"] or 0 for row in read_rows(table)) == [0, 1, 3, 5, 7]
    assert sorted(table_rows(table, "other")) == [(4,), (4,), (4,), (18,), (18,)]
    after = {str(path) for path in files_between(table, None)}
    assert (len(after & before), len(after)) == (1, 2)


def test_other_rows_take_the_place_of_those_that_go_once(tmp_path: Path, session: SparkSession) -> None:
    table = tmp_path / "numbers"
    fields: list[dict[str, object]] = [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]
    create_table(table, json.dumps({"type": "struct", "fields": fields}))
    commit_entries(table, sink_of(table).write(pa.table({"n": [1, 2, 3, 4]})))

    def halved(rows: pa.Table) -> pa.Table:
        return pa.table({"n": pc.divide(rows["n"], 2)})

    for _ in range(2):
        remove_rows(
            engine_of(session), Home(tmp_path), table, Even(), None, "halve", ("halver", 1), instead=halved
        )

    assert sorted(row["n"] for row in read_rows(table)) == [1, 1, 2, 3]

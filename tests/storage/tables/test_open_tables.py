"""Tables that a process keeps open: whatever others do to them meanwhile, it finds what opening them anew finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from lakehouse.engine import parts
from lakehouse.engine.parts import commit_entries, sink_of
from lakehouse.storage.control.session import LeaseLost
from lakehouse.storage.layout import Home
from lakehouse.storage.tables import open_tables
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.table_commits import (
    add_columns,
    append,
    append_arrow,
    arrow_schema,
    commit,
    create_table,
    open_table,
    set_properties,
)
from lakehouse.storage.tables.table_maintenance import compact_and_vacuum, remove_table
from lakehouse.storage.tables.table_replacement import replace_table


def schema(*names: str) -> str:
    columns = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    return json.dumps({"type": "struct", "fields": columns})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of one row that this process has open."""
    path = tmp_path / "table"
    create_table(path, schema("n"))
    append(path, [{"n": 1}], ("first", 1))
    return path


def seen(known: DeltaTable) -> tuple[object, ...]:
    """What a writer asks of a table."""
    rows = known.to_pyarrow_table().to_pylist()
    writers = [known.transaction_version(name) for name in ("first", "other")]
    return known.version(), known.schema(), known.metadata().configuration, writers, sorted(map(str, rows))


def by_another(table: Path, writer: str = "other") -> None:
    """Append a row as a process does that has not opened the table before."""
    known = DeltaTable(str(table))
    append_arrow(known, table, pa.Table.from_pylist([{"n": 2}], arrow_schema(known)), (writer, 5))


def made_anew(table: Path) -> None:
    """Delete the table, and make one with other columns and as many commits."""
    remove_table(Home(table.parent), table)
    create_table(table, schema("m"))
    append(table, [{"m": 1}], ("other", 1))


def made_anew_and_longer(table: Path) -> None:
    made_anew(table)
    append(table, [{"m": 2}])


def maintained(table: Path) -> None:
    """Merge files, and delete all versions and log entries but the last ones."""
    for number in range(30):
        by_another(table, f"writer {number}")
    compact_and_vacuum(table, history_us=0)
    by_another(table)


CHANGES: list[Callable[[Path], object]] = [
    by_another,
    made_anew,
    made_anew_and_longer,
    maintained,
    lambda table: replace_table(table, schema("n", "m"), {"ours": "2"}, ()),
    lambda table: add_columns(table, schema("n", "m")),
    lambda table: set_properties(table, {"ours": "1"}),
    lambda table: append(table, [{"n": 3}], ("first", 2)),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_opened_again_is_what_it_is_when_opened_anew(
    table: Path, change: Callable[[Path], object]
) -> None:
    with opened(table) as known:
        seen(known)

    change(table)

    with opened(table) as known:
        assert seen(known) == seen(DeltaTable(str(table)))


def test_only_commits_since_are_read(table: Path) -> None:
    with opened(table) as first:
        pass
    with opened(table) as second:
        assert second is first


def test_whoever_has_a_table_has_it_alone(table: Path) -> None:
    with opened(table) as outer, opened(table) as inner:
        assert inner is not outer


def test_a_commit_prepared_before_a_file_was_removed_fails_though_the_table_was_opened_since(
    table: Path,
) -> None:
    with opened(table) as mine:
        (file,) = mine.file_uris()
        path = str(Path(file).relative_to(table))
        with opened(table) as other:
            commit(other, table, [], [path])
        with pytest.raises(CommitFailedError):
            commit(mine, table, [], [path])


def test_what_a_failed_block_had_is_not_used_again(table: Path) -> None:
    with pytest.raises(ZeroDivisionError), opened(table) as failed:
        raise ZeroDivisionError
    with opened(table) as known:
        assert known is not failed


def test_a_table_that_is_gone_is_not_there(table: Path) -> None:
    remove_table(Home(table.parent), table)
    with pytest.raises(TableNotFoundError), opened(table):
        pass
    with pytest.raises(TableNotFoundError):
        open_table(table)


def test_a_writer_that_loses_its_lease_behind_the_columns_that_it_adds_appends_nothing(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paused there, and its successor seals the table; the writer must not read that as a base of its own."""

    def lost() -> None:
        raise LeaseLost("another process has it")

    def paused_behind(path: Path, columns: str) -> None:
        add_columns(path, columns)
        set_properties(path, {"tidemark.sealed": "raw/s 2"})
        monkeypatch.setattr(open_tables, "require_leases", lost)

    monkeypatch.setattr(parts, "add_columns", paused_behind)
    rows = pa.table({"n": [2], "m": [3]})

    with pytest.raises(LeaseLost):
        commit_entries(table, sink_of(table, rows.schema).write(rows), ("job", 1))

    assert DeltaTable(str(table)).to_pyarrow_table().to_pylist() == [{"n": 1, "m": None}]

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.storage.tables.newest_commits import Commits
from lakehouse.storage.tables.table_log import bounds, file_facts, newest_version, read_columns, read_log
from tests.serving.streams import write_delta

AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


@pytest.mark.parametrize("as_spark_does", [False, True], ids=["stated", "int96"])
def test_moments_are_in_utc_however_they_are_stored(tmp_path: Path, as_spark_does: bool) -> None:
    table = pa.table({"at": pa.array([AT, None], pa.timestamp("us", tz="UTC"))})
    write_delta(table, tmp_path)
    pq.write_table(table, tmp_path / "part-0.parquet", use_deprecated_int96_timestamps=as_spark_does)

    assert read_columns(tmp_path, ("at",)) == [(AT,), (None,)]


def test_reading_columns_loads_no_pandas(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2], "at": pa.array([AT, AT], pa.timestamp("us", tz="UTC"))})
    write_delta(table, tmp_path)
    program = (
        "import sys; from pathlib import Path; from lakehouse.storage.tables.table_log import read_columns;"
        "print(len(read_columns(Path(sys.argv[1]), ('n', 'at'), ('n', 2, 2))), 'pandas' in sys.modules)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True
    )

    assert ended.stdout == "1 False\n"


def _committed(table: Path, *versions: int) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for version in versions:
        (log / f"{version:020d}.json").write_text("{}\n")


def test_commits_are_the_same_until_a_table_changes(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    commits = Commits(one, other)

    assert commits() == commits() == ((-1, 0), (-1, 0))
    _committed(one, 0, 1, 2)
    first = commits()
    assert [version for version, _ in first] == [2, -1] and commits() == first
    _committed(one, 3, 4)
    _committed(other, 0)
    assert [version for version, _ in commits()] == [4, 0]


def test_a_table_made_anew_is_a_change_although_its_version_is_lower(tmp_path: Path) -> None:
    table = tmp_path / "table"
    _committed(table, 0, 1, 2)
    commits = Commits(table)
    before = commits()
    shutil.rmtree(table)
    _committed(table, 0)

    assert [version for version, _ in commits()] == [0]
    shutil.rmtree(table)
    _committed(table, 0, 1, 2)
    assert commits() != before


def _written(table: Path, parts: Sequence[tuple[str, Sequence[tuple[int | None, int | None]]]]) -> None:
    """Write a table of two columns, a part a file; its statistics are whole, without counts of nulls, or none."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    actions = []
    for number, (kind, rows) in enumerate(parts):
        columns = {name: [row[place] for row in rows] for place, name in enumerate("kv")}
        pq.write_table(
            pa.table({n: pa.array(v, pa.int64()) for n, v in columns.items()}), table / f"{number}.parquet"
        )
        known = {name: [v for v in values if v is not None] for name, values in columns.items()}
        stats: dict[str, Any] = {"numRecords": len(rows)}
        stats["minValues"] = {name: min(values) for name, values in known.items() if values}
        stats["maxValues"] = {name: max(values) for name, values in known.items() if values}
        if kind == "whole":
            stats["nullCount"] = {name: values.count(None) for name, values in columns.items()}
        added = {"path": f"{number}.parquet", "size": 1} | (
            {} if kind == "none" else {"stats": json.dumps(stats)}
        )
        actions.append(json.dumps({"add": added}))
    (log / f"{0:020d}.json").write_text("\n".join(actions))


def _checkpointed(table: Path, version: int, actions: Sequence[dict[str, Any]]) -> None:
    """Write a checkpoint as Delta does: a row has one action."""
    kinds = {
        "metaData": {"id": pa.string(), "configuration": pa.map_(pa.string(), pa.string())},
        "add": {"path": pa.string(), "size": pa.int64(), "stats": pa.string()},
        "remove": {"path": pa.string(), "deletionTimestamp": pa.int64()},
    }
    schema = pa.schema({kind: pa.struct(list(fields.items())) for kind, fields in kinds.items()})
    rows = [{kind: dict(what) for kind, what in action.items()} for action in actions]
    for row in rows:
        if "metaData" in row:
            row["metaData"]["configuration"] = list(row["metaData"]["configuration"].items())
    log = table / "_delta_log"
    pq.write_table(pa.Table.from_pylist(rows, schema), log / f"{version:020d}.checkpoint.parquet")
    (log / "_last_checkpoint").write_text(json.dumps({"version": version, "size": len(rows)}))


@given(
    st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=3), min_size=1, max_size=14),
    st.lists(st.integers(0, 13), max_size=2),
    st.integers(0, 14),
    st.sampled_from(["newest", "older", "none"]),
)
@example([[(True, n)] for n in range(6)], [1, 4], 3, "older")
@settings(deadline=None)
def test_a_log_says_the_same_however_it_was_checkpointed_and_cut(
    commits: list[list[tuple[bool, int]]], checkpoints: list[int], cut: int, pointer: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        table, files, gone = Path(name), dict[str, int](), dict[str, int]()
        (table / "_delta_log").mkdir()
        for version, changes in enumerate(commits):
            told: list[dict[str, Any]] = [
                {"metaData": {"id": "0", "configuration": {"n": str(version // 3)}}}
            ]
            for is_added, number in changes:
                path = f"{number}.parquet"
                if is_added:
                    files[path] = version
                    gone.pop(path, None)
                    told.append({"add": {"path": path, "size": version}})
                elif files.pop(path, None) is not None:
                    gone[path] = version
                    told.append({"remove": {"path": path, "deletionTimestamp": version}})
            commit = table / "_delta_log" / f"{version:020d}.json"
            commit.write_text("".join(json.dumps(action) + "\n" for action in told))
            if version in checkpoints:
                held = [told[0], *({"add": {"path": p, "size": size}} for p, size in files.items())]
                _checkpointed(
                    table,
                    version,
                    held + [{"remove": {"path": p, "deletionTimestamp": at}} for p, at in gone.items()],
                )
        done = [version for version in checkpoints if version < len(commits)]
        for version in range(min(cut, max(done, default=0))):
            for old in (table / "_delta_log").glob(f"{version:020d}.*"):
                old.unlink()
        if pointer == "older" and done:
            (table / "_delta_log" / "_last_checkpoint").write_text(json.dumps({"version": min(done)}))
        if pointer == "none":
            (table / "_delta_log" / "_last_checkpoint").unlink(missing_ok=True)

        found = read_log(table)

        assert found is not None and found.version == newest_version(table) == len(commits) - 1
        assert found.properties == {"n": str((len(commits) - 1) // 3)}
        assert found.files == {table / path: size for path, size in files.items()}


numbers = st.one_of(st.none(), st.integers(-5, 5))
parts = st.tuples(
    st.sampled_from(["whole", "bounds", "none"]), st.lists(st.tuples(numbers, numbers), max_size=4)
)
asked = st.one_of(
    st.none(), st.tuples(st.just("k"), st.integers(-6, 6), st.one_of(st.none(), st.integers(-6, 6)))
)


@given(st.lists(parts, max_size=4), asked)
@settings(deadline=None)
def test_rows_in_between_and_their_extremes_are_those_of_all_rows_read_one_by_one(
    parts: list[tuple[str, list[tuple[int | None, int | None]]]], between: tuple[str, int, int | None] | None
) -> None:
    rows = [row for _, of_part in parts for row in of_part]
    if between is not None:
        _, low, high = between
        rows = [(k, v) for k, v in rows if k is not None and low <= k and (high is None or k <= high)]
    with tempfile.TemporaryDirectory() as name:
        _written(Path(name) / "table", parts)

        assert read_columns(Path(name) / "table", ("v", "k"), between) == [(v, k) for k, v in rows]
        found = bounds(Path(name) / "table", ("k", "v"), between)

    for place, ends in enumerate(found):
        values = [value for row in rows if (value := row[place]) is not None]
        assert ends == (min(values, default=None), max(values, default=None))


def test_extremes_of_a_table_with_statistics_are_told_without_its_files(tmp_path: Path) -> None:
    _written(tmp_path / "table", [("whole", [(1, 5), (2, None)]), ("whole", [(3, 4)]), ("whole", [(9, 0)])])
    for path in (tmp_path / "table").glob("*.parquet"):
        path.unlink()

    assert bounds(tmp_path / "table", ("k", "v"), ("k", 0, 3)) == [(1, 3), (4, 5)]


def test_each_file_tells_its_rows_and_ends_without_being_opened(tmp_path: Path) -> None:
    _written(tmp_path / "table", [("whole", [(1, 5), (2, 7)]), ("whole", [(3, 4)])])
    for path in (tmp_path / "table").glob("*.parquet"):
        path.unlink()

    found = file_facts(tmp_path / "table")

    assert sorted((each.rows, each.ends("k"), each.ends("none")) for each in found) == [
        (1, (3, 3), (None, None)),
        (2, (1, 2), (None, None)),
    ]
    assert all(each.path.parent == tmp_path / "table" and not each.partition for each in found)


def test_a_column_that_older_files_lack_has_no_value_there(tmp_path: Path) -> None:
    write_delta(pa.table({"n": [1, 2]}), tmp_path)

    assert read_columns(tmp_path, ("later", "n")) == [(None, 1), (None, 2)]


def test_a_file_is_told_with_its_partition_also_from_a_checkpoint_and_a_table_made_again_is_another(
    tmp_path: Path,
) -> None:
    for side in (1, 2):
        rows = pa.table({"side": pa.array([side], pa.int32()), "n": pa.array([7], pa.int64())})
        deltalake.write_deltalake(tmp_path / "t", rows, partition_by=["side"])
        before = file_facts(tmp_path / "t")
        deltalake.DeltaTable(tmp_path / "t").create_checkpoint()
        (tmp_path / "t" / "_delta_log" / f"{0:020d}.json").unlink()

        assert file_facts(tmp_path / "t") == before == file_facts(tmp_path / "t")
        assert [(one.partition, one.rows, one.ends("n")) for one in before] == [
            ({"side": str(side)}, 1, (7, 7))
        ]
        shutil.rmtree(tmp_path / "t")

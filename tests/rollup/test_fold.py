"""Folding what is touched = folding everything, whatever the order of appends, folds and replaced nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import Schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.config.stream import Stream
from lakehouse.engine.local import LocalEngine
from lakehouse.rollup import fold, fold_plan
from lakehouse.rollup.nodes import NodeFolder
from lakehouse.settings import load_settings
from lakehouse.storage.tables import table_commits
from tests.support.readings import declared

SECOND = 1_000_000
T0 = 1_600_000_000 * SECOND
NEVER = -(2**62)
Row = dict[str, Any]
INT, LONG = pa.int32(), pa.int64()
NODE = (
    *(pa.field(name, kind) for name, kind in (("level", INT), ("grouping", INT), ("start_us", LONG))),
    pa.field("device", pa.string()),
    *(pa.field(name, LONG) for name in ("rows", "first_us", "last_us")),
    *(pa.field(f"count__{part}", LONG) for part in ("n", "sum", "min", "max", "first_us", "last_us")),
)
# A second, late or not, of a device, with a value.
READINGS = st.lists(
    st.tuples(st.integers(0, 2400), st.sampled_from(["a", "b", None]), st.integers(-9, 9)),
    min_size=1,
    max_size=12,
)
STEPS = st.lists(
    st.one_of(READINGS, st.just("fold"), st.tuples(st.integers(0, 40), st.integers(1, 9))),
    min_size=1,
    max_size=12,
)


@cache
def stream_of(counters: bool = False) -> Stream:
    text = declared().replace('measures = ["temp", "count"]', 'measures = ["count"]')
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tidemark.toml"
        path.write_text(text.replace("keys =", 'counters = ["count"]\nkeys =') if counters else text)
        return load_settings(path).stream("readings")


def _counters(stream: Stream) -> list[pa.Field]:
    return [pa.field(name, pa.float64()) for name in stream.counter_columns]


def folder_of(stream: Stream, newest_us: int = 0) -> NodeFolder:
    return NodeFolder(stream, newest_us, pa.schema([*NODE, *_counters(stream)]))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few nodes, so that a test has many of them, some of which are not worth a fold."""
    for name, value in {"PART_NODES": 8, "SMALL_NODES": 4, "WORTH_SHARE": 2, "FRESH_FILES": 2}.items():
        monkeypatch.setattr(fold_plan, name, value)


@dataclass
class Table:
    """A rollup table, and beside it all partial nodes that were ever appended to it."""

    path: Path
    stream: Stream
    newest: int = NEVER
    batch: int = 0
    partial: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        table_commits.create_table(
            self.path,
            Schema.from_arrow(
                pa.schema([*NODE[:3], pa.field("batch", pa.int64()), *NODE[3:], *_counters(self.stream)])
            ).to_json(),
            properties={"delta.dataSkippingStatsColumns": "level,grouping,start_us,batch"},
        )

    @property
    def horizons(self) -> list[int]:
        from lakehouse.algorithms.rollup.levels import horizons

        return [NEVER] * 3 if self.newest == NEVER else horizons(self.stream.levels, self.newest)

    def append(self, readings: list[tuple[int, str | None, int]]) -> None:
        self.batch += 1
        times = sorted(T0 + second * SECOND for second, _, _ in readings)
        self.newest = max(self.newest, times[-1])
        rows = pa.table(
            {
                "event_us": [T0 + second * SECOND for second, _, _ in readings],
                "device": pa.array([device for _, device, _ in readings], pa.string()),
                "count": [value for _, _, value in readings],
            }
        ).sort_by("event_us")
        made = folder_of(self.stream, self.newest).folded([rows])
        found = [row | {"batch": self.batch} for part in made for row in part.to_pylist()]
        self.partial += [row for row in found if row["level"] > 0]
        mark = {
            "level": 0,
            "grouping": -1,
            "start_us": self.newest,
            "batch": self.batch,
            "rows": len(readings),
        }
        self._write([*found, mark])

    def _write(self, rows: list[Row]) -> None:
        known = table_commits.open_table(self.path)
        schema = table_commits.arrow_schema(known)
        table_commits.append_arrow(known, self.path, pa.Table.from_pylist(rows, schema))

    def replace(self, low: int, high: int) -> None:
        """Take all nodes of some whole top nodes out, and write half of their partial ones again."""
        ends = [T0 // (60 * SECOND) * 60 * SECOND + minute * 60 * SECOND for minute in (low, low + high)]
        known = table_commits.open_table(self.path)
        rows = known.to_pyarrow_table().to_pylist()

        def is_out(row: Row) -> bool:
            return bool(row["level"] > 0 and ends[0] <= row["start_us"] < ends[1])

        out = [row for row in self.partial if is_out(row)]
        self.partial = [row for row in self.partial if not is_out(row)] + out[::2]
        files = pa.table(known.get_add_actions(flatten=True))["path"].to_pylist()
        kept = [row for row in rows if not is_out(row)] + out[::2]
        table_commits.commit(known, self.path, [], files)
        self._write(kept)

    def fold(self) -> dict[str, int]:
        return fold.fold(LocalEngine(), self.path, folder_of(self.stream), self.horizons)

    def rows(self) -> list[Row]:
        found: list[Row] = table_commits.open_table(self.path).to_pyarrow_table().to_pylist()
        return found

    def parts(self) -> Iterator[tuple[fold_plan.NodeFile, list[Row]]]:
        log = pa.table(table_commits.open_table(self.path).get_add_actions(flatten=True))
        for file in fold_plan.table_files(log, self.horizons).parts:
            yield file, pa.parquet.read_table(self.path / file.path).to_pylist()

    def kept(self, rows: list[Row]) -> dict[tuple[Any, ...], Row]:
        """The slow obvious way: every node by itself, of those that a level keeps."""
        found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in rows:
            if row["level"] > 0 and row["start_us"] >= self.horizons[row["level"] - 1]:
                found[row["level"], row["grouping"], row["start_us"], row["device"]].append(row)
        return {place: _one(nodes) for place, nodes in found.items()}


def _one(nodes: list[Row]) -> Row:
    whole: Row = {}
    for name, combine in (("rows", sum), ("first_us", min), ("last_us", max), ("batch", max)):
        whole[name] = combine(node[name] for node in nodes)
    for part, combine in (
        ("n", sum),
        ("sum", sum),
        ("min", min),
        ("max", max),
        ("first_us", min),
        ("last_us", max),
    ):
        values = [node[f"count__{part}"] for node in nodes if node[f"count__{part}"] is not None]
        whole[f"count__{part}"] = combine(values) if values else None
    return whole


def run(table: Table, steps: list[Any]) -> None:
    for step in steps:
        if step == "fold":
            table.fold()
        elif isinstance(step, list):
            table.append(step)
        else:
            table.replace(*step)


def check(table: Table) -> None:
    assert table.kept(table.rows()) == table.kept(table.partial)
    last: dict[int, int] = {}
    for file, rows in table.parts():
        level, (low, high) = file.levels[0], file.starts
        assert {row["level"] for row in rows} == {level}
        assert (min(row["start_us"] for row in rows), max(row["start_us"] for row in rows)) == (low, high)
        assert low > last.get(level, NEVER), "parts of a level overlap"
        last[level] = high
        nodes = {(row["grouping"], row["start_us"], row["device"]) for row in rows}
        assert len(nodes) == len(rows), "a part holds one row per node"
        assert [row["start_us"] for row in rows] == sorted(row["start_us"] for row in rows)


@pytest.mark.slow
@given(STEPS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_folding_what_is_touched_is_folding_everything(steps: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        table = Table(Path(folder) / "rollup", stream_of())
        run(table, steps)
        check(table)
        table.fold()
        check(table)
        marks = [row for row in table.rows() if row["level"] == 0]
        if table.batch:
            assert max(row["start_us"] for row in marks) == table.newest
            assert max(row["batch"] for row in marks) == table.batch
        entered = [row for row in table.rows() if row["level"] < 0]
        assert sum(row["rows"] for row in entered) <= sum(row["rows"] for row in marks)


def test_what_few_nodes_have_come_for_is_not_written_anew(tmp_path: Path) -> None:
    table = Table(tmp_path / "rollup", stream_of())
    table.append([(second, device, 1) for second in range(0, 3000, 60) for device in "ab"])
    table.fold()
    before = {file.path: file.rows for file, _ in table.parts()}
    assert len(before) > 4

    table.append([(2900, "a", 1)])
    table.append([(2900, "a", 1)])
    figures = table.fold()

    after = {file.path for file, _ in table.parts()}
    assert 0 < len(before.keys() - after) < 4
    assert len(table.rows()) == figures["rows_after"] + len([row for row in table.rows() if row["level"] < 0])
    check(table)


def test_a_fold_waits_until_enough_is_fresh_and_then_leaves_one_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_plan, "FRESH_FILES", 3)
    monkeypatch.setattr(fold_plan, "FRESH_SHARE", 1)
    table = Table(tmp_path / "rollup", stream_of())
    table.append([(second, "a", 1) for second in range(0, 600, 10)])
    assert table.fold()["parts_folded"] > 0

    for _ in range(2):
        table.append([(600, "a", 1)])
        assert table.fold()["parts_folded"] == 0
    table.append([(600, "a", 1)])

    assert table.fold()["parts_folded"] > 0
    (mark,) = (row for row in table.rows() if row["level"] == 0)
    assert (mark["start_us"], mark["batch"], mark["rows"]) == (T0 + 600 * SECOND, 4, 63)
    assert table.fold()["parts_folded"] == 0


def test_parts_below_a_horizon_leave_without_being_read(tmp_path: Path) -> None:
    table = Table(tmp_path / "rollup", stream_of())
    table.append([(second, "a", 1) for second in range(0, 600, 10)])
    table.fold()
    finest = [file.path for file, _ in table.parts() if file.levels[0] == 1]
    for path in finest:
        (table.path / path).unlink()
    table.append([(5000, "a", 1)])

    table.fold()

    assert not {file.path for file, _ in table.parts()} & set(finest)
    check(table)


def test_a_fold_that_would_lose_rows_commits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path / "rollup", stream_of())
    table.append([(second, "a", 1) for second in range(0, 600, 10)])
    before = table.rows()
    folder = folder_of(table.stream)
    monkeypatch.setattr(type(folder), "combined", lambda self, nodes, by, meters=True: nodes.slice(1))

    with pytest.raises(fold.FoldUnbalanced, match="rows by grouping before a fold"):
        table.fold()

    assert table.rows() == before


@given(st.lists(READINGS, min_size=1, max_size=6), st.integers(0, 5))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_counters_are_joined_from_their_children_as_by_a_fold_of_everything(
    batches: list[list[tuple[int, str | None, int]]], folded: int
) -> None:
    """Bounds may be wider where partial nodes overlap; both hold the truth, so that they overlap."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold_plan, "FRESH_FILES", 1)
        table = Table(Path(folder) / "rollup", stream_of(counters=True))
        for number, readings in enumerate(batches):
            table.append([(second, device, abs(value)) for second, device, value in readings])
            if number >= folded:
                table.fold()
        table.fold()
        check(table)
        rows = [row for row in table.rows() if row["level"] > 0]
        schema = folder_of(table.stream).schema
        whole = folder_of(table.stream).whole(pa.Table.from_pylist(table.partial, schema)).to_pylist()
        mine_at, theirs_at = ({_place(row): row for row in found} for found in (rows, whole))
        for at in table.kept(rows):
            mine, theirs = mine_at[at], theirs_at[at]
            if mine["count__drops_low"] is not None:
                assert mine["count__drops_low"] <= theirs["count__drops_high"]
                assert theirs["count__drops_low"] <= mine["count__drops_high"]
            assert [mine[f"count__{part}"] for part in ("first", "last", "n")] == [
                theirs[f"count__{part}"] for part in ("first", "last", "n")
            ]


def _place(row: Row) -> tuple[Any, ...]:
    return row["level"], row["grouping"], row["start_us"], row["device"]

"""Partial nodes of a rollup table folded into the parts that they touch, by kernels, in one commit.

    map       files of fresh and waiting nodes --> how many come for each part, and a sample of their times
    by_key    the same files --> nodes by part --> a part's file and its loose nodes as one row per node
                                           `--> parts that few have come for: their loose nodes wait as the rest

Cost: the loose nodes, and the parts that are written anew; what stays is not read. Memory of a task: one part, or
loose nodes of parts that wait. Every part must hold as many rows in each grouping as came in, or nothing is committed.
Where there are counters, nodes are joined from their children, so that each level waits for the finer one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.problems import Permanent
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import ENTRIES, TableSink, commit_entries, file_items, sink_of
from lakehouse.rollup import fold_plan
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import open_table
from lakehouse.storage.tables.table_files import dataset
from lakehouse.storage.tables.table_reads import pieces_of
from lakehouse.storage.tables.tables_place import place_at

if TYPE_CHECKING:
    from lakehouse.rollup.nodes import NodeFolder

Int64s = npt.NDArray[np.int64]

_ROW_GROUP = 65_536
# Loose nodes of parts that wait go to a file of about so many.
_REST_NODES = 500_000
_MARKS = -1
# No column of a stream has "__" in its name.
_NUMBER = pa.field("kernel__part", pa.int32())
# Entries, with the number of their part.
_WRITTEN = ENTRIES.append(_NUMBER)
_SURVEYED = pa.schema({"part": pa.int64(), "count": pa.int64(), "starts": pa.list_(pa.int64())})


class FoldUnbalanced(Permanent, RuntimeError):
    """A fold would have lost or added rows; nothing was committed."""


def fold(
    engine: Engine, table: Location, folder: NodeFolder, horizons: Sequence[int], step: str = "fold nodes"
) -> dict[str, int]:
    """Fold what is fresh in a rollup table, where enough is, and drop parts that no level keeps.

    Whoever calls holds the table's lease. Returns rows before and after, and how many parts were written anew. Cost: a
    Spark job and one with a shuffle, of which there is one a level where there are counters.
    """
    files = fold_plan.table_files(pa.table(open_table(table).get_add_actions(flatten=True)), horizons)
    if not (files.gone or files.is_due):
        return {"rows_before": files.rows, "rows_after": files.rows, "parts_folded": 0}
    written, removed = _WRITTEN.empty_table(), list(files.gone)
    if files.is_due:
        written, replaced = _written(engine, table, folder, horizons, files, step)
        removed += replaced
    crash_point("maintain.fold-written")
    entries = written.drop_columns([_NUMBER.name])
    commit_entries(table, entries, removed=[file.path for file in removed], is_change=False)
    # Counts by level are no rows of the table for people; the marker counts as one.
    marks = sum(row["rows"] - 1 for row in written.to_pylist() if row[_NUMBER.name] == _MARKS)
    after = files.rows - sum(file.rows for file in removed) + sum(written["rows"].to_pylist()) - marks
    parts = sum(row[_NUMBER.name] != _MARKS and not _is_rest(row) for row in written.to_pylist())
    return {"rows_before": files.rows, "rows_after": after, "parts_folded": parts}


def _is_rest(entry: Mapping[str, Any]) -> bool:
    return str(entry["path"]).rpartition("/")[2].startswith(fold_plan.REST)


def _written(
    engine: Engine,
    table: Location,
    folder: NodeFolder,
    horizons: Sequence[int],
    files: fold_plan.TableFiles,
    step: str,
) -> tuple[pa.Table, list[fold_plan.NodeFile]]:
    """Write the parts anew that are worth it, the rest, and the marks; return entries and the files they replace."""
    loose = file_items(table / file.path for file in files.loose)
    parts, is_worthy = _surveyed(engine, loose, folder, horizons, files, step)
    folding = Folding(folder, horizons, sink_of(table), parts, is_worthy)
    replaced = {
        part.file.path: part.file
        for part, chosen in zip(parts, is_worthy, strict=True)
        if chosen and part.file
    }
    kept = [
        (file.levels[0], str((table / file.path).absolute()), *file.starts)
        for file in files.parts
        if file.path not in replaced
    ]
    found = []
    for levels in _rounds(folder, horizons):
        own = replace(folding, levels=levels, current=tuple(kept))
        rows_schema = folding.sink.columns.append(_NUMBER)
        folded = engine.by_key(
            *(loose, partial(_by_part, folding=own), rows_schema, _NUMBER.name),
            *(partial(_fold_part, folding=own), _WRITTEN, step),
        )
        done = set(folded[_NUMBER.name].to_pylist())
        left = pa.table({_NUMBER.name: [number for number in own.replacing if number not in done]})
        rest = engine.map(left, partial(_fold_alone, folding=own), _WRITTEN, f"{step}: pieces of cut parts")
        found += [folded, rest]
        kept += [
            _current(row) for each in (folded, rest) for row in each.to_pylist() if row[_NUMBER.name] >= 0
        ]
    return pa.concat_tables(found), [*replaced.values(), *files.loose]


def _rounds(folder: NodeFolder, horizons: Sequence[int]) -> list[frozenset[int]]:
    """Return the levels that are folded at a time; what is no node goes with the finest."""
    levels = range(1, len(horizons) + 1)
    return [frozenset({level}) for level in levels] if folder.stream.counters else [frozenset(levels)]


def _current(entry: Mapping[str, Any]) -> tuple[int, str, int, int]:
    """Return what a part that was written holds: level, path, first and last start."""
    ends = json.loads(entry["statistics"])
    low, high = (ends[end].get("start_us", 0) for end in ("minValues", "maxValues"))
    return ends["maxValues"]["level"], entry["path"], low, high


def _surveyed(
    engine: Engine,
    loose: pa.Table,
    folder: NodeFolder,
    horizons: Sequence[int],
    files: fold_plan.TableFiles,
    step: str,
) -> tuple[tuple[fold_plan.Part, ...], tuple[bool, ...]]:
    survey = fold_plan.survey_of(files, horizons)
    counted = engine.map(loose, partial(_count, survey=survey), _SURVEYED, f"{step}: count those that came")
    for row in counted.to_pylist():
        survey.add(row["part"], row["count"], np.array(row["starts"], np.int64))
    found = [
        (part, is_worthy)
        for number, is_worthy in enumerate(survey.worthy(bool(folder.stream.counters)))
        for part in (survey.cut(number) if is_worthy else [survey.parts[number]])
    ]
    return tuple(part for part, _ in found), tuple(is_worthy for _, is_worthy in found)


def _count(item: Item, survey: fold_plan.Survey) -> Iterator[pa.Table]:
    """Yield how many nodes of a file come for each part, and a sample of their starts."""
    columns = pa.schema({"level": pa.int32(), "start_us": pa.int64()})
    for nodes in pieces_of(item["path"], columns):
        levels, starts = _places(nodes)
        found = fold_plan.place(survey.parts, survey.horizons, levels, starts)
        counts = np.bincount(found[found >= 0], minlength=len(survey.parts))
        sampled, of_sample = found[:: survey.step], starts[:: survey.step]
        numbers = np.flatnonzero(counts)
        samples = [of_sample[sampled == number] for number in numbers]
        yield pa.table({"part": numbers, "count": counts[numbers], "starts": samples}, _SURVEYED)


@dataclass(frozen=True)
class Folding:
    """A fold of some levels of a table: the parts that it is cut into, and which of them are written anew.

    ``current``: level, file, first and last start of the parts that stand, for the counters of the level above.
    """

    folder: NodeFolder
    horizons: Sequence[int]
    sink: TableSink
    parts: tuple[fold_plan.Part, ...]
    is_worthy: tuple[bool, ...]
    levels: frozenset[int] = frozenset()
    current: tuple[tuple[int, str, int, int], ...] = ()

    @property
    def by(self) -> list[str]:
        """The columns that name a node."""
        return ["level", "start_us", "grouping", *self.folder.stream.grouping_keys]

    @property
    def replacing(self) -> list[int]:
        """The parts of these levels that are to be written in the place of files."""
        return [
            number
            for number, (part, is_worthy) in enumerate(zip(self.parts, self.is_worthy, strict=True))
            if is_worthy and part.file is not None and part.level in self.levels
        ]

    def numbers_of(self, nodes: pa.Table) -> Int64s:
        """Return which part each row goes to; below the marks' number those that no level keeps.

        Rows of parts that wait go to numbers behind those of the parts.
        """
        levels, starts = _places(nodes)
        found = fold_plan.place(self.parts, self.horizons, levels, starts)
        is_part, waits = found >= 0, ~np.array(self.is_worthy, np.bool_)
        shares = 1 + sum(part.rows for part in self.parts) // (len(self.parts) * _REST_NODES)
        is_waiting = is_part & waits[np.where(is_part, found, 0)]
        numbers = np.where(is_waiting, len(self.parts) + found % shares, np.where(is_part, found, _MARKS - 1))
        numbers[levels <= 0] = _MARKS
        least = _MARKS if 1 in self.levels else 0
        return np.where(np.isin(np.maximum(levels, 1), list(self.levels)) & (numbers >= least), numbers, -2)

    def folded(self, number: int, loose: pa.Table) -> pa.Table:
        """Write a part with the loose nodes that came for it; return its entry."""
        part = self.parts[number]
        both = pa.concat_tables([loose, self._standing(part)])
        nodes = self.folder.combined(both, self.by)
        _require_balance(both, nodes)
        if self.folder.stream.counters and part.level > 1:
            nodes = self._from_children(nodes, loose, part.level)
        nodes = nodes.sort_by([("start_us", "ascending"), ("grouping", "ascending")])
        return self.sink.write(nodes, fold_plan.FOLDED, _ROW_GROUP)

    def waiting(self, loose: pa.Table) -> pa.Table:
        """Write loose nodes of parts that stay as they are, combined; return the entry."""
        nodes = self.folder.combined(loose, self.by)
        _require_balance(loose, nodes)
        return self.sink.write(nodes, fold_plan.REST)

    def marked(self, marks: pa.Table) -> pa.Table:
        """Write one marker, and one count of the rows that entered at each level; return the entry."""
        marker = marks.filter(pc.equal(marks["level"], 0)).group_by(["level", "grouping"], use_threads=False)
        marker = marker.aggregate([("start_us", "max"), ("batch", "max"), ("rows", "sum")])
        counts = marks.filter(pc.less(marks["level"], 0)).group_by(["level", "grouping", "start_us"])
        entered = counts.aggregate([("batch", "max"), ("rows", "sum")])
        names = {"start_us_max": "start_us", "batch_max": "batch", "rows_sum": "rows"}
        frames = [
            each.rename_columns([names.get(name, name) for name in each.column_names])
            for each in (marker, entered)
        ]
        return self.sink.write(frames, fold_plan.FOLDED)

    def _standing(self, part: fold_plan.Part) -> pa.Table:
        """Return the nodes of a part that were folded before, and are kept."""
        if part.file is None:
            return self.sink.columns.empty_table()
        low, start = max(part.low, self.horizons[part.level - 1]), pc.field("start_us")
        file = dataset([place_at(self.sink.table) / part.file.path], self.sink.columns)
        return file.to_table(filter=(start >= low) & (start < part.high), use_threads=False)

    def _from_children(self, nodes: pa.Table, loose: pa.Table, level: int) -> pa.Table:
        """Return nodes with counters joined from all their children, of the nodes that have new rows."""
        width = self.folder.stream.levels[level - 1].width_us
        touched = np.unique(loose["start_us"].to_numpy())
        carried = [
            self.folder.carried(self._children(path, touched, level), level, self.by)
            for of, path, low, high in self.current
            if of == level - 1
            and np.searchsorted(touched, low - width, side="right")
            < np.searchsorted(touched, high, side="right")
        ]
        if not carried:
            return nodes
        return self.folder.joined(nodes, self.folder.combined(pa.concat_tables(carried), self.by), self.by)

    def _children(self, path: str, touched: Int64s, level: int) -> pa.Table:
        """Return the kept nodes of a file of the finer level whose parents are touched."""
        width, kept = self.folder.stream.levels[level - 1].width_us, self.horizons[level - 2]
        rows = dataset([place_at(path)], self.sink.columns).to_table(use_threads=False)
        starts = rows["start_us"].to_numpy()
        return rows.filter(pa.array(np.isin(starts - starts % width, touched) & (starts >= kept)))


def _by_part(item: Item, folding: Folding) -> Iterator[pa.Table]:
    for nodes in pieces_of(item["path"], folding.sink.columns):
        numbers = folding.numbers_of(nodes)
        is_own = numbers >= _MARKS
        own = nodes if is_own.all() else nodes.filter(pa.array(is_own))
        yield own.append_column(_NUMBER, pa.array(numbers[is_own].astype(np.int32)))


def _fold_part(number: int, nodes: pa.Table, folding: Folding) -> pa.Table:
    nodes = nodes.drop_columns([_NUMBER.name])
    if number == _MARKS:
        return _numbered(folding.marked(nodes), number)
    is_part = number < len(folding.parts)
    return _numbered(folding.folded(number, nodes) if is_part else folding.waiting(nodes), number)


def _fold_alone(item: Item, folding: Folding) -> Iterator[pa.Table]:
    """Yield the entry of a piece of a cut part for which no node has come."""
    number = item[_NUMBER.name]
    yield _numbered(folding.folded(number, folding.sink.columns.empty_table()), number)


def _numbered(entries: pa.Table, number: int) -> pa.Table:
    return entries.append_column(_NUMBER, pa.array([number] * entries.num_rows, _NUMBER.type))


def _places(nodes: pa.Table) -> tuple[Int64s, Int64s]:
    # A marker of a table without a time has no start.
    starts = pc.fill_null(nodes["start_us"], 0)
    return nodes["level"].to_numpy().astype(np.int64), starts.to_numpy()


def _require_balance(before: pa.Table, after: pa.Table) -> None:
    """Refuse nodes that do not hold the rows that they are made of, grouping by grouping.

    Raises FoldUnbalanced when they do not.
    """
    sums = [
        dict(zip(found["grouping"].to_pylist(), found["rows_sum"].to_pylist(), strict=True))
        for found in (one.group_by("grouping").aggregate([("rows", "sum")]) for one in (before, after))
    ]
    if sums[0] != sums[1]:
        raise FoldUnbalanced(
            f"rows by grouping before a fold: {sums[0]}, after it: {sums[1]}; nothing is changed"
        )

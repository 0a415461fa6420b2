"""Partial nodes of a rollup table folded into the parts that they touch, in Arrow, in one commit.

    fresh files --> loose nodes by part, on disk --> part by part: its file and its loose nodes as one row per node
                                                `--> parts that few have come for: their loose nodes wait as the rest

Cost: the loose nodes, and the parts that are written anew; what stays is not read. Memory: one part for each thread.
Every part must hold as many rows in each grouping as came in, or nothing is committed.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lakehouse.declare.problems import Permanent
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.table_commits import arrow_schema, commit, data_files, open_table
from lakehouse.home.table_files import dataset, sink, write
from lakehouse.home.tables_place import in_home
from lakehouse.streams.fold_plan import (
    FOLDED,
    REST,
    NodeFile,
    Part,
    TableFiles,
    place,
    survey_of,
    table_files,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from lakehouse.streams.nodes import NodeFolder

    Int64s = npt.NDArray[np.int64]

_ROW_GROUP = 65_536
_SCRATCH = "_folding"


class FoldUnbalanced(Permanent, RuntimeError):
    """A fold would have lost or added rows; nothing was committed."""


def fold(table: Path, folder: NodeFolder, horizons: Sequence[int]) -> dict[str, int]:
    """Fold what is fresh in a rollup table, where enough is, and drop parts that no level keeps.

    Whoever calls holds the table's lease. Returns rows before and after, and how many parts were written anew.
    """
    known = open_table(table)
    files = table_files(pa.table(known.get_add_actions(flatten=True)), horizons)
    if not (files.gone or files.is_due):
        return {"rows_before": files.rows, "rows_after": files.rows, "parts_folded": 0}
    run = Fold(table, arrow_schema(known), folder, horizons, files)
    shutil.rmtree(run.scratch, ignore_errors=True)
    removed = list(files.gone)
    if files.is_due:
        removed += run.write()
    crash_point("maintain.fold-written")
    added = [file for path in run.folders for file in data_files(known, table, path)]
    commit(known, table, added, [file.path for file in removed], is_change=False)
    shutil.rmtree(run.scratch, ignore_errors=True)
    after = files.rows - sum(file.rows for file in removed) + sum(file.rows for file in added) - run.counts
    return {"rows_before": files.rows, "rows_after": after, "parts_folded": run.parts_written}


@dataclass
class Fold:
    """One fold of a table: it writes files, and tells which ones they take the place of."""

    table: Path
    schema: pa.Schema
    folder: NodeFolder
    horizons: Sequence[int]
    files: TableFiles
    counts: int = 0
    parts_written: int = 0
    folders: list[Path] = field(default_factory=list)
    # What each level is made of by now, for the counters of the level above.
    current: dict[int, list[tuple[Path, int, int]]] = field(default_factory=dict)

    @property
    def scratch(self) -> Path:
        """Where loose nodes are sorted by part; of one that was killed, the next fold deletes it."""
        return in_home(self.table) / _SCRATCH

    @property
    def by(self) -> list[str]:
        """The columns that name a node."""
        return ["level", "start_us", "grouping", *self.folder.stream.grouping_keys]

    def write(self) -> list[NodeFile]:
        """Write the parts anew that are worth it, the rest, and the marks; return the files that they replace."""
        parts, worthy = self._surveyed()
        self.folders = [self.table / f"{name}{uuid.uuid4().hex}" for name in (FOLDED, REST)]
        for path in (*self.folders, self.scratch):
            path.mkdir(parents=True)
        self._sort_out(parts)
        chosen = [number for number in range(len(parts)) if worthy[number]]
        replaced = {part.file.path: part.file for n in chosen if (part := parts[n]).file is not None}
        for file in self.files.parts:
            if file.path not in replaced:
                self.current.setdefault(file.levels[0], []).append((self.table / file.path, *file.starts))
        self._fold_parts(parts, chosen)
        self._write_rest([number for number in range(len(parts)) if not worthy[number]])
        return [*replaced.values(), *self.files.loose]

    def _surveyed(self) -> tuple[list[Part], list[bool]]:
        survey = survey_of(self.files, self.horizons)
        for batch in self._loose(["level", "start_us"]):
            survey.add(*_places(batch))
        found = [
            (part, is_worthy)
            for number, is_worthy in enumerate(survey.worthy(bool(self.folder.stream.counters)))
            for part in (survey.cut(number) if is_worthy else [survey.parts[number]])
        ]
        return [part for part, _ in found], [is_worthy for _, is_worthy in found]

    def _loose(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        files = dataset([self.table / file.path for file in self.files.loose], self.schema)
        yield from files.to_batches(columns=list(columns))

    def _sort_out(self, parts: Sequence[Part]) -> None:
        """Write loose nodes to a file for each part, and what is no node to the file of marks."""
        marks: list[pa.RecordBatch] = []
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with ExitStack() as opened:
            writers: dict[int, pa.RecordBatchFileWriter] = {}
            for batch in self._loose(self.schema.names):
                marks.append(batch.filter(pc.less_equal(batch["level"], 0)))
                found = place(parts, self.horizons, *_places(batch))
                order = np.argsort(found, kind="stable")
                numbers, firsts = np.unique(found[order], return_index=True)
                ends = [*firsts[1:], len(order)]
                for number, first, end in zip(numbers.tolist(), firsts, ends, strict=True):
                    if number < 0:
                        continue
                    if number not in writers:
                        writer = pa.ipc.new_file(self._scratch_of(number), self.schema, options=options)
                        writers[number] = opened.enter_context(writer)
                    writers[number].write(batch.take(pa.array(order[first:end])))
        self._write_marks(pa.Table.from_batches(marks, self.schema))

    def _scratch_of(self, number: int) -> str:
        return str(self.scratch / f"{number}.arrow")

    def _waiting(self, number: int) -> pa.Table:
        """Return the loose nodes of a part."""
        path = self._scratch_of(number)
        if not os.path.exists(path):
            return self.schema.empty_table()
        with pa.memory_map(path) as source:
            return pa.ipc.open_file(source).read_all()

    def _write_marks(self, marks: pa.Table) -> None:
        """Write one marker, and one count of the rows that entered at each level."""
        marker = marks.filter(pc.equal(marks["level"], 0))
        marker = marker.group_by(["level", "grouping"], use_threads=False).aggregate(
            [("start_us", "max"), ("batch", "max"), ("rows", "sum")]
        )
        counts = marks.filter(pc.less(marks["level"], 0)).group_by(["level", "grouping", "start_us"])
        entered = counts.aggregate([("batch", "max"), ("rows", "sum")])
        self.counts = entered.num_rows
        names = {"start_us_max": "start_us", "batch_max": "batch", "rows_sum": "rows"}
        frames = [
            self._fitted(each.rename_columns([names.get(name, name) for name in each.column_names]))
            for each in (marker, entered)
        ]
        write(pa.concat_tables(frames), self.folders[0] / "marks.parquet")

    def _fitted(self, rows: pa.Table) -> pa.Table:
        """Return rows with the table's columns: those that they lack are null."""
        columns = [
            rows[one.name].cast(one.type)
            if one.name in rows.column_names
            else pa.nulls(rows.num_rows, one.type)
            for one in self.schema
        ]
        return pa.table(columns, self.schema)

    def _fold_parts(self, parts: Sequence[Part], chosen: Sequence[int]) -> None:
        """Fold parts, a few at a time; those of one level after those of the finer where counters are joined."""
        levels = [
            [n for n in chosen if parts[n].level == level] for level in range(1, len(self.horizons) + 1)
        ]
        rounds = levels if self.folder.stream.counters else [list(chosen)]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for numbers in rounds:
                for part, written in pool.map(lambda number: self._fold_part(number, parts[number]), numbers):
                    if written is not None:
                        self.current.setdefault(part.level, []).append(written)
                        self.parts_written += 1

    def _fold_part(self, number: int, part: Part) -> tuple[Part, tuple[Path, int, int] | None]:
        loose = self._waiting(number)
        both = pa.concat_tables([loose, self._folded(part)])
        if not both.num_rows:
            return part, None
        nodes = self.folder.combined(both, self.by)
        _require_balance(both, nodes)
        if self.folder.stream.counters and part.level > 1:
            nodes = self._from_children(nodes, loose, part.level)
        nodes = nodes.sort_by([("start_us", "ascending"), ("grouping", "ascending")])
        path = self.folders[0] / f"part-{number:05d}.parquet"
        write(self._fitted(nodes), path, row_group_size=_ROW_GROUP)
        low, high = nodes["start_us"][0].as_py(), nodes["start_us"][-1].as_py()
        return part, (path, low, high)

    def _folded(self, part: Part) -> pa.Table:
        """Return the nodes of a part that were folded before, and are kept."""
        if part.file is None:
            return self.schema.empty_table()
        low, start = max(part.low, self.horizons[part.level - 1]), ds.field("start_us")
        file = dataset([self.table / part.file.path], self.schema)
        return file.to_table(filter=(start >= low) & (start < part.high), use_threads=False)

    def _from_children(self, nodes: pa.Table, loose: pa.Table, level: int) -> pa.Table:
        """Return nodes with counters joined from all their children, of the nodes that have new rows."""
        width = self.folder.stream.levels[level - 1].width_us
        touched = np.unique(loose["start_us"].to_numpy())
        carried = [
            self.folder.carried(self._children(path, touched, level), level, self.by)
            for path, low, high in self.current.get(level - 1, ())
            if np.searchsorted(touched, low - width, side="right")
            < np.searchsorted(touched, high, side="right")
        ]
        if not carried:
            return nodes
        return self.folder.joined(nodes, self.folder.combined(pa.concat_tables(carried), self.by), self.by)

    def _children(self, path: Path, touched: Int64s, level: int) -> pa.Table:
        """Return the kept nodes of a file of the finer level whose parents are touched."""
        width, kept = self.folder.stream.levels[level - 1].width_us, self.horizons[level - 2]
        rows = dataset([path], self.schema).to_table(use_threads=False)
        starts = rows["start_us"].to_numpy()
        return rows.filter(pa.array(np.isin(starts - starts % width, touched) & (starts >= kept)))

    def _write_rest(self, numbers: Sequence[int]) -> None:
        """Write the loose nodes of parts that stay as they are, those of each part combined."""
        with ExitStack() as opened:
            writer: pq.ParquetWriter | None = None
            for number in numbers:
                loose = self._waiting(number)
                if not loose.num_rows:
                    continue
                if writer is None:
                    path = self.folders[1] / "rest.parquet"
                    file = opened.enter_context(sink(path))
                    writer = opened.enter_context(pq.ParquetWriter(file, self.schema))
                nodes = self.folder.combined(loose, self.by)
                _require_balance(loose, nodes)
                writer.write_table(self._fitted(nodes))


def _places(batch: pa.RecordBatch) -> tuple[Int64s, Int64s]:
    # A marker of a table without a time has no start.
    starts = pc.fill_null(batch["start_us"], 0)
    return batch["level"].to_numpy().astype(np.int64), starts.to_numpy()


def _require_balance(before: pa.Table, after: pa.Table) -> None:
    """Refuse nodes that do not hold the rows that they are made of, grouping by grouping.

    Raises:
        FoldUnbalanced: when they do not.
    """
    sums = [
        dict(zip(found["grouping"].to_pylist(), found["rows_sum"].to_pylist(), strict=True))
        for found in (one.group_by("grouping").aggregate([("rows", "sum")]) for one in (before, after))
    ]
    if sums[0] != sums[1]:
        raise FoldUnbalanced(
            f"rows by grouping before a fold: {sums[0]}, after it: {sums[1]}; nothing is changed"
        )

"""Rows that a join of three streams or more keeps in windows: appended by tasks, and read by later batches.

    new rows, those of earlier batches that the table lacks, and those that it has where nobody has counted them
        -> parts of the table, each of one side and in order of its slots; the log of late and refused rows
        -> numbers of rows by kind, figures of the log, and counts of keys

The table's log tells of each file the side, rows, batches and times, so tasks open only files that a batch can meet.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.multiway_join.contract import Int64s
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import ENTRIES, SUNK, TableSink, entries_by_sink
from lakehouse.queries.multiway.centre import COUNTS, counts_of
from lakehouse.queries.multiway.places import lags_of
from lakehouse.queries.multiway.query import SLOTS, MultiwayQuery
from lakehouse.queries.multiway.reach import Reach
from lakehouse.queries.multiway.rows import TAKEN, kinds_of, logged_rows
from lakehouse.queries.runtime.tables import bucket_of
from lakehouse.queries.runtime.tasks.by_bucket import joined_figures, log_figures
from lakehouse.queries.runtime.tasks.reading import (
    Columns,
    Counted,
    FileRows,
    SideRows,
    Some,
    TaskRows,
    items_of,
)
from lakehouse.spark.noted_rows import PLACE
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import fitted
from lakehouse.storage.tables.table_log import FileFacts, file_facts
from lakehouse.storage.tables.table_reads import named_columns

_RESULT = pa.schema(
    [*SUNK, *((each, pa.string()) for each in ("kinds", "lags", "logged")), ("is_new", pa.bool_()), *COUNTS]
)
_COUNTED = ["side", "event_us", "key"]
Since = Sequence[int | None]


@dataclass(frozen=True)
class Appending:
    """Appends of rows to windows by tasks.

    ``batch``: its number. ``next_us``: rows before it are late for the next batch too. ``slots``: how many there are.
    """

    query: MultiwayQuery
    windows: TableSink
    log: TableSink
    batch: int
    slots: int
    reach: Reach
    next_us: int | None

    def run(
        self, engine: Engine, new: Sequence[SideRows], older: Sequence[SideRows], stored: Sequence[SideRows]
    ) -> Appended:
        """Write the rows of a batch, by side, and ``older`` ones, which have the batch that read each.

        ``stored``: rows of earlier batches that are there, to be counted.
        """
        inputs = [*new, *older, *stored]
        files = [(number, *each) for number, own in enumerate(inputs) for each in own.files]
        rows = tuple(each.rows for each in inputs)
        kernel = partial(_append, how=self, inputs=rows, new=len(new), written=len(new) + len(older))
        step = f"windows of {self.query.name}, batch {self.batch}"
        found = engine.map(items_of(files), kernel, _RESULT, step)
        windows, log = entries_by_sink(found, 2)
        kinds = Counter[str]()
        for text in found["kinds"].drop_null().to_pylist():
            kinds.update(json.loads(text))
        sides = [{name: kinds[f"{name}_{side}"] for name in TAKEN} for side in range(len(new))]
        logged = joined_figures(map(json.loads, found["logged"].drop_null().to_pylist()))
        counts = (
            found.filter(is_own).select(COUNTS.names)
            for is_own in (found["is_new"], pc.invert(found["is_new"]))
        )
        lags = [json.loads(text) for text in found["lags"].drop_null().to_pylist()]
        return Appended(windows, log, sides, lags, logged, *counts)

    def kept(self, rows: pa.Table, batch: pa.ChunkedArray | None) -> pa.Table:
        """Return the rows that join as the table has them; ``batch`` if it is not this one."""
        slot = pa.array(np.mod(rows["key"].to_numpy(), min(self.slots, SLOTS)).astype(np.int32))
        number = pa.repeat(pa.scalar(self.batch, pa.int64()), len(rows)) if batch is None else batch
        kept = rows.drop_columns(["is_refused", "batch", "row"])
        return kept.append_column("batch", number).append_column("slot", slot)


@dataclass(frozen=True)
class Appended:
    """Entries of windows and of the log, the number of new rows by side and kind, the figures of the log.

    ``lags``: how far behind new rows came, as parts. ``counts``: of the keys of new rows; ``earlier``: of those of
    earlier batches.
    """

    windows: pa.Table
    log: pa.Table
    kinds: Sequence[Mapping[str, int]]
    lags: Sequence[Sequence[int]]
    logged: Mapping[str, Any]
    counts: pa.Table
    earlier: pa.Table


def _append(
    item: Item, *, how: Appending, inputs: Sequence[TaskRows], new: int, written: int
) -> Iterator[pa.Table]:
    """Write the rows of some files; yield entries, numbers of rows by kind, figures of the log, and counts of keys."""
    kept, logged, kinds, lags = list[pa.Table](), list[pa.Table](), Counter[str](), list[int]()
    counted: dict[bool, list[pa.Table]] = {True: [], False: []}
    for number, own in groupby(zip(item["inputs"], item["paths"], strict=True), lambda each: each[0]):
        for batch in inputs[number].batches(path for _, path in own):
            rows = pa.Table.from_batches([batch])
            if number >= written:
                counted[False].append(rows)
                continue
            is_used = pc.and_(rows["key"].is_valid(), pc.invert(rows["is_refused"]))
            used = rows.filter(is_used)
            is_new = number < new
            kept.append(
                how.kept(used, None) if is_new else how.kept(used.drop_columns("taken"), used["taken"])
            )
            counted[is_new].append(kept[-1].select(_COUNTED))
            if not is_new:
                continue
            late_us = how.reach.late_us(number)
            of_kind = kinds_of(rows, np.ones(len(rows), np.bool_), late_us)
            lags += lags_of(how.reach, number, rows, of_kind)
            kinds.update({f"{name}_{number}": int(is_so.sum()) for name, is_so in of_kind.items()})
            logged.append(logged_rows(rows, of_kind, late_us, how.batch, how.reach.time_us))
    parts = [ENTRIES.empty_table()]
    if kept:
        parts = [
            how.windows.write(pa.concat_tables(kept).sort_by([("side", "ascending"), ("slot", "ascending")]))
        ]
    parts.append(how.log.write(logged))
    for sink, entries in enumerate(parts):
        numbered = entries.append_column("sink", pa.repeat(pa.scalar(sink, pa.int32()), len(entries)))
        yield fitted(numbered, _RESULT)
    figures = [log_figures(each) for each in logged]
    told = {name: [json.dumps(each)] for name, each in (("kinds", kinds), ("lags", lags))}
    told |= {"logged": [json.dumps(joined_figures(figures))]}
    yield fitted(pa.table(told), _RESULT)
    for is_new, some in counted.items():
        if some:
            counts = counts_of(pa.concat_tables(some), how.query, how.slots, how.next_us)
            yield fitted(counts.append_column("is_new", pa.repeat(is_new, len(counts))), _RESULT)


@dataclass(frozen=True)
class Windows:
    """Rows of the table as a batch sees them: ``new`` ones, appended by now, and stored ones of earlier batches.

    ``since_us``: per side, from when on stored rows are looked at; None for all.
    """

    reach: Reach
    table: Location
    batch: int
    since_us: Since
    files: Sequence[FileFacts]

    @classmethod
    def of(cls, reach: Reach, table: Location, batch: int, since_us: Since) -> Windows:
        """Return the rows that a table has now, as a batch sees them that has been appended."""
        return cls(reach, table, batch, since_us, file_facts(table))

    @property
    def query(self) -> MultiwayQuery:
        """The query."""
        return self.reach.query

    def rows(self, side: int, places: int, passing: Passing | None = None) -> SideRows:
        """Return the rows of a side with the place in which those of a key meet; ``passing``: some of them."""
        where = f"batch = {self.batch} OR {self._stored(side)}"
        keys = [f"k_{place}" for place in range(len(self.query.sides[side].keys))]
        shown = [*PLACE, *keys, *(f"o_{each.name}" for each in self.query.outputs)]
        columns = (
            *(f"{side} AS side", "event_us", "`key`", "false AS is_refused"),
            *(f"batch = {self.batch} AS is_new", bucket_of("`key`", places)),
            *(f"`{name}`" for name in shown),
        )
        stored = named_columns(self.table, {"batch", "event_us", "key", *shown})
        rows: TaskRows = Columns(FileRows(stored, where), columns)
        return SideRows(self.counted(side), rows if passing is None else Some(rows, passing))

    def stored(self) -> list[SideRows]:
        """Return each side's rows of earlier batches that are looked at, to be counted."""
        stored, found = named_columns(self.table, {"batch", "event_us", "key"}), []
        for side in range(len(self.query.sides)):
            rows = Columns(FileRows(stored, self._stored(side)), (f"{side} AS side", "event_us", "`key`"))
            found.append(SideRows(self.counted(side), rows))
        return found

    def counted(self, side: int) -> list[Counted]:
        """Return the files that may have a side's rows, with the number of rows of each."""
        return [(each.path, each.rows) for each in self._of(side) if self._is_met(each)]

    def held(self, side: int) -> int:
        """Return how many rows a side has that are looked at, new ones too; at most."""
        return sum(rows for _, rows in self.counted(side))

    def _stored(self, side: int) -> str:
        since_us = self.since_us[side]
        earlier = f"batch < {self.batch}"
        return earlier if since_us is None else f"({earlier} AND event_us >= {since_us})"

    def _of(self, side: int) -> list[FileFacts]:
        return [each for each in self.files if each.partition["side"] == str(side)]

    def _is_met(self, file: FileFacts) -> bool:
        (oldest, newest), (_, latest) = (file.ends(name) for name in ("batch", "event_us"))
        since_us = self.since_us[int(file.partition["side"] or 0)]
        is_earlier = oldest is None or oldest < self.batch
        is_near = since_us is None or latest is None or latest >= since_us
        return newest is None or newest >= self.batch or (is_earlier and is_near)


@dataclass(frozen=True)
class Passing:
    """Slots of a side's rows that can join: of new ones, and of all of those that new rows of other sides meet."""

    slots: int
    new: Int64s
    met: Int64s

    def __call__(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return which rows can join."""
        slot = np.mod(rows.column("key").to_numpy(), self.slots)
        is_new = rows.column("is_new").to_numpy(zero_copy_only=False)
        passes: np.ndarray = np.isin(slot, self.met) | (is_new & np.isin(slot, self.new))
        return passes

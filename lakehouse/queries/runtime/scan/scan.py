"""One pass over some ingest batches of a stream for all that reads them: its raw rows are read once.

    files of the span, statistics of the batches before
        -> tasks        an executor each: conditions in measured order, turns by priority (``task.py``)
        -> parts of rows that each reader lets through, and what was measured of its conditions

The order of conditions changes how long that takes, never which rows come out.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policies import DEFAULT
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import SUNK, Parts, entries_by_sink
from lakehouse.queries.runtime.batch_manifest import Span
from lakehouse.queries.runtime.scan.measurements import Before, interval_of, known_of
from lakehouse.queries.runtime.scan.readers import Reader, sources_of, written
from lakehouse.queries.runtime.scan.task import LIMIT_BYTES, READER, ROW, TOLD, Work
from lakehouse.queries.runtime.tables import ROW_HASH, Written
from lakehouse.queries.runtime.tasks.arrow_sql import columns_read
from lakehouse.queries.runtime.tasks.reading import Columns, FileRows, Passed, TaskRows, items_of, raw_columns
from lakehouse.spark.noted_rows import PLACE
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_commits import fitted
from lakehouse.storage.tables.table_log import files_near

Facts = dict[str, Any]
_RESULT = pa.schema([*SUNK, (TOLD, pa.string())])


@dataclass(frozen=True)
class Scan:
    """Readers of one stream, and what their last batches showed, by name; the ingest batches are those of ``span``."""

    layout: Home
    readers: tuple[Reader, ...]
    span: Span
    before: Mapping[str, Before]
    limit_bytes: int = LIMIT_BYTES
    is_strict: bool = False
    policy: str = DEFAULT

    def run(self, engine: Engine, writes: Sequence[Written]) -> tuple[list[pa.Table], list[Facts]]:
        """Write the rows that each reader lets through; return the entries of each, and what tasks have told.

        Raises LookupError where a column was declared after the last rows came.
        """
        stream, (after, through) = self.readers[0].stream, self.span
        files = files_near(self.layout.raw(stream), "batch", [(after + 1, through)])
        rows = self.rows(f"batch > {after} AND batch <= {through}")
        found = engine.map(
            items_of([(0, *each) for each in files]),
            partial(_scan, rows=rows, work=self._work(rows), writes=tuple(writes)),
            _RESULT,
            f"scan {stream}, batches {after + 1} to {through}",
        )
        told = (json.loads(text) for text in found[TOLD].drop_null().to_pylist())
        return entries_by_sink(found, len(writes)), [task for task in told if task["arrived"][0]]

    def passed(self, rows: TaskRows) -> Passed:
        """Return those of some of its rows that the only reader lets through."""
        return Passed(rows, self._work(rows))

    def rows(self, where: str) -> Columns:
        """Return what tasks read of raw rows for which a condition holds.

        Raises LookupError where a column was declared after the last rows came.
        """
        read = dict.fromkeys(column for reader in self.readers for column in reader.read)
        names = (f"`{name}`" for name in read if name not in ("event_us", *PLACE))
        columns = ("event_us", f"{ROW_HASH} AS `{ROW}`", *PLACE, *names)
        stored = raw_columns(self.layout, self.readers[0].stream, columns_read([*columns, where]))
        return Columns(FileRows(stored, where), columns)

    def shown(self, reader: Reader) -> pa.Schema:
        """Return the columns of the rows that a reader lets through: time, hash, and those that it wants."""
        wanted = dict.fromkeys(("event_us", ROW, *PLACE, *reader.columns))
        return pa.schema([self.rows("true").schema.field(name) for name in wanted])

    def _work(self, rows: TaskRows) -> Work:
        network = Network.of(written(self.readers))
        shown = dict.fromkeys(column for reader in self.readers for column in reader.columns)
        # What a task tells stands in a row that has none of them.
        wanted = dict.fromkeys(("event_us", ROW, *PLACE, *shown))
        own = [rows.schema.field(name).with_nullable(True) for name in wanted]
        return Work(
            self.readers,
            sources_of(self.readers),
            known_of(network, self.before),
            interval_of(self.before),
            pa.schema([(READER, pa.int32()), (TOLD, pa.string()), *own]),
            self.limit_bytes,
            self.is_strict,
            policy=self.policy,
        )


def _scan(item: Item, *, rows: TaskRows, work: Work, writes: Sequence[Written]) -> Iterator[pa.Table]:
    """Write what is let through of the rows of some files; yield entries, and what the task tells."""
    parts = Parts([each.sink for each in writes])
    for found in work.run(rows.batches(item["paths"])):
        told = found.column(TOLD).drop_null()
        if len(told):
            yield fitted(pa.table({TOLD: told}), _RESULT)
        elif found.num_rows:
            reader = found.column(READER)[0].as_py()
            parts.add(reader, writes[reader].rows(pa.Table.from_batches([found])))
    yield fitted(parts.entries(), _RESULT)

"""One pass over some ingest batches of a stream for all that reads them: its raw rows are read once.

    raw rows of the span, statistics of the batches before
        -> tasks        an executor each: conditions in measured order, turns by priority (``task.py``)
        -> rows that each reader lets through, and what was measured of its conditions

The order of conditions changes how long that takes, never which rows come out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policies import DEFAULT
from lakehouse.home.layout import Home
from lakehouse.queries.runtime import arrow_sql
from lakehouse.queries.runtime.arrow_sql import columns_read
from lakehouse.queries.runtime.batch import read_here, read_raw
from lakehouse.queries.runtime.batch_manifest import Span
from lakehouse.queries.runtime.bucket_answers import Rows
from lakehouse.queries.runtime.scan.measurements import Before, interval_of, known_of
from lakehouse.queries.runtime.scan.readers import Reader, sources_of, written
from lakehouse.queries.runtime.scan.task import LIMIT_BYTES, READER, ROW, TOLD, Work
from lakehouse.queries.runtime.tables import ROW_HASH

Near = Callable[[DataFrame], DataFrame]
Facts = dict[str, Any]


@dataclass(frozen=True)
class Scan:
    """Readers of one stream, and what their last batches showed, by name; the ingest batches are those of ``span``."""

    spark: SparkSession
    layout: Home
    readers: tuple[Reader, ...]
    span: Span
    before: Mapping[str, Before]
    limit_bytes: int = LIMIT_BYTES
    is_strict: bool = False
    policy: str = DEFAULT

    def found(self, near: Near | None = None) -> DataFrame:
        """Return what comes out of the tasks; ``near``: which raw rows are looked at, all if None.

        Raises:
            LookupError: where a column was declared after the last rows came.
        """
        stream, columns = self.readers[0].stream, self._columns()
        raw = read_raw(self.spark, self.layout, stream, self.span)
        if lacking := sorted(columns_read(columns) - {*raw.columns}):
            raise LookupError(
                f"raw of {stream} has no {', '.join(lacking)} yet: it comes with the next ingest batch"
            )
        rows = (near(raw) if near else raw).selectExpr(*columns)
        schema = self._answer(to_arrow_schema(rows.schema))
        return rows.mapInArrow(self._work(schema).run, from_arrow_schema(schema))

    def found_here(self) -> pa.Table:
        """Return the same, made in this process: of readers that call no predicate.

        Raises:
            LookupError: where a column was declared after the last rows came.
        """
        (after, through), columns = self.span, self._columns()
        raw = read_here(self.layout, self.readers[0].stream, ("batch", after + 1, through), columns)
        rows = arrow_sql.select(raw, columns)
        schema = self._answer(rows.schema)
        return pa.Table.from_batches(self._work(schema).run(rows.to_batches()), schema)

    def _columns(self) -> list[str]:
        """Return what tasks read of raw rows, as SQL."""
        read = dict.fromkeys(column for reader in self.readers for column in reader.read)
        return ["event_us", f"{ROW_HASH} AS `{ROW}`", *(f"`{name}`" for name in read if name != "event_us")]

    def _answer(self, read: pa.Schema) -> pa.Schema:
        """Return what a row is that tasks answer."""
        shown = dict.fromkeys(column for reader in self.readers for column in reader.columns)
        # What a task tells stands in a row that has none of them.
        own = [read.field(name).with_nullable(True) for name in dict.fromkeys(("event_us", ROW, *shown))]
        return pa.schema([(READER, pa.int32()), (TOLD, pa.string()), *own])

    def _work(self, schema: pa.Schema) -> Work:
        network = Network.of(written(self.readers))
        return Work(
            self.readers,
            sources_of(self.readers),
            known_of(network, self.before),
            interval_of(self.before),
            schema,
            self.limit_bytes,
            self.is_strict,
            policy=self.policy,
        )

    def rows(self, found: Rows, place: int) -> Rows:
        """Return the rows that a reader lets through, as they are in raw: time, hash, and the columns it wants."""
        wanted = dict.fromkeys(("event_us", ROW, *self.readers[place].columns))
        if isinstance(found, pa.Table):
            return found.filter(pc.equal(found[READER], place)).select(list(wanted))
        return found.where(F.col(READER) == place).select(*wanted)


def told(found: Rows) -> list[Facts]:
    """Return what the tasks that had rows have told; runs a scan of Spark."""
    if isinstance(found, pa.Table):
        texts = found[TOLD].drop_null().to_pylist()
    else:
        texts = [row[TOLD] for row in found.where(F.col(TOLD).isNotNull()).select(TOLD).collect()]
    return [task for text in texts if (task := json.loads(text))["arrived"][0]]

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

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policies import DEFAULT
from lakehouse.home.layout import Home
from lakehouse.home.table_log import files_between
from lakehouse.queries.runtime.batch_manifest import Span
from lakehouse.queries.runtime.scan.measurements import Before, interval_of, known_of
from lakehouse.queries.runtime.scan.readers import Reader, sources_of, written
from lakehouse.queries.runtime.scan.task import LIMIT_BYTES, READER, ROW, TOLD, Work
from lakehouse.queries.runtime.tables import parsed
from lakehouse.spark import tables

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
        stream = self.readers[0].stream
        raw = read_raw(self.spark, self.layout, stream, self.span)
        kinds = {field.name: field.dataType.simpleString() for field in raw.schema}
        read = dict.fromkeys(column for reader in self.readers for column in reader.read)
        if lacking := [name for name in read if name not in kinds]:
            raise LookupError(
                f"raw of {stream} has no {', '.join(lacking)} yet: it comes with the next ingest batch"
            )
        shown = dict.fromkeys(column for reader in self.readers for column in reader.columns)
        columns = "".join(f", `{name}` {kinds[name]}" for name in shown if name != "event_us")
        schema = f"{READER} int, {TOLD} string, event_us bigint, {ROW} bigint{columns}"
        row = F.xxhash64("source_file", "source_line", "source_item").alias(ROW)
        rows = (near(raw) if near else raw).select(
            "event_us", row, *(name for name in read if name != "event_us")
        )
        return rows.mapInArrow(self._work(schema).run, schema)

    def _work(self, schema: str) -> Work:
        network = Network.of(written(self.readers))
        return Work(
            self.readers,
            sources_of(self.readers),
            known_of(network, self.before),
            interval_of(self.before),
            to_arrow_schema(parsed(schema)),
            self.limit_bytes,
            self.is_strict,
            policy=self.policy,
        )

    def rows(self, found: DataFrame, place: int) -> DataFrame:
        """Return the rows that a reader lets through, as they are in raw: time, hash, and the columns it wants."""
        wanted = dict.fromkeys(("event_us", ROW, *self.readers[place].columns))
        return found.where(F.col(READER) == place).select(*wanted)


def told(found: DataFrame) -> list[Facts]:
    """Return what the tasks that had rows have told; runs the scan."""
    rows = found.where(F.col(TOLD).isNotNull()).select(TOLD).collect()
    return [task for row in rows if (task := json.loads(row[TOLD]))["arrived"][0]]


def read_raw(spark: SparkSession, layout: Home, stream: str, span: Span) -> DataFrame:
    """Return the raw rows of some ingest batches of a stream."""
    table, (after, through) = layout.raw(stream), span
    # Asking Delta for a table costs a small batch more than reading its rows.
    raw = tables.read_files(spark, table, files_between(table, ("batch", after + 1, through)))
    return raw.where(f"batch BETWEEN {after + 1} AND {through}")

"""A registered query that runs, batch after batch: what all kinds do alike, around what a kind does with a batch.

A batch is finished when its metrics are in ``queries``. All that it reads was written down before, its state is that of
the batch before, and each table is appended once per batch: so a batch that died anywhere is made again, alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar
from uuid import uuid4

from pyspark.sql import functions as F

from lakehouse.home.crashpoint import crash_point
from lakehouse.home.table_log import file_bounds
from lakehouse.queries.kind import Query, kind_of
from lakehouse.queries.runtime.batch import MOST_ROWS, Through, next_batch
from lakehouse.queries.runtime.batch_manifest import definition_of, require_same
from lakehouse.queries.runtime.bucket import METRICS, STATE
from lakehouse.queries.runtime.segments import SegmentFiles, StateBefore, StateFile
from lakehouse.queries.runtime.source import FromRaw, RowSource
from lakehouse.queries.runtime.tables import parsed
from lakehouse.spark import tables

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.declare.stream import Stream
    from lakehouse.home.layout import Home
    from lakehouse.queries.runtime.batch_manifest import BatchManifest

Q = TypeVar("Q", bound=Query)
# What a task does with one bucket: its number, its rows, and what belongs to them -> rows of the answer.
Work = Callable[[tuple["pa.Scalar", ...], "pa.Table", "pa.Table"], "pa.Table"]


@dataclass(frozen=True)
class QueryRun(ABC, Generic[Q]):
    """A registered query and where it runs; ``counts``: the totals that ``finish`` returns."""

    counts: ClassVar[tuple[str, ...]]
    # What sql/tables calls the table of metrics, where columns came to it later.
    metrics_table: ClassVar[str] = ""
    spark: SparkSession
    layout: Home
    query: Q
    streams: Mapping[str, Stream]
    buckets: int = 1

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        layout: Home,
        query: Q,
        streams: Mapping[str, Stream],
        buckets: int,
        sites: Mapping[str, Mapping[str, float]],
    ) -> Self:
        """Return a query and where it runs; ``buckets`` and ``sites`` as they are declared."""
        return cls(spark, layout, query, streams, buckets)

    @abstractmethod
    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, Any]:
        """Append all that a batch comes to, its metrics last; return its totals."""

    def create_tables(self) -> None:
        """Create the tables that are not there, by the kind's ``tables.py``."""
        kind_of(self.query).file("tables").create_tables(self.spark, self.layout, self.query, self.streams)

    def drain(self, most_rows: int = MOST_ROWS) -> dict[str, int]:
        """Take in, by itself, all finished ingest batches that no batch of the query holds yet; return the totals.

        Raises:
            QueryChanged: when the query means something else than its tables.
        """
        self.begin()
        totals = dict.fromkeys(("batches", *self.counts), 0)
        while (manifest := self.next(most_rows)) is not None:
            add(totals, self.finish(manifest, FromRaw(self.spark, self.layout, self.query, manifest.spans)))
        return totals

    def begin(self) -> None:
        """Create the tables that are not there.

        Raises:
            QueryChanged: when the query means something else than its tables.
        """
        name = self.query.name
        require_same(self.layout.batch_manifests(name), name, definition_of(self.query, self.buckets))
        self.create_tables()

    def next(self, most_rows: int, through: Through | None = None) -> BatchManifest | None:
        """Return the batch that was begun, or write down the next one; None when all is taken."""
        return next_batch(self.layout, self.query, most_rows, through, self.through_repair())

    def through_repair(self) -> int:
        """Return up to which repair a batch that is written down now knows what was missed."""
        return 0

    def append(
        self, rows: DataFrame, table: Path, found: str, number: int, counted_as: str = "batch"
    ) -> bool:
        """Append rows of a batch, or of a repair, once; return False where that was done before."""
        writer = f"{'query' if found == 'online' else 'repair'}-{self.query.name}"
        numbered = rows.withColumn(counted_as, F.lit(number).cast("bigint"))
        return tables.append_once(numbered, table, writer, number) is not None

    def append_metrics(self, rows: Iterable[Mapping[str, Any]], batch: int, **times: Any) -> None:
        """Append what a batch did, so that it is finished; ``times`` are the same in every row."""
        stamp = {"batch": batch, **times, "committed_at": datetime.now(UTC)}
        table, writer = self.layout.queries(self.query.name), f"query-{self.query.name}"
        stamped = [{**row, **stamp} for row in rows]
        tables.append_rows(self.spark, stamped, table, writer, batch, self.metrics_table)
        crash_point("queries.finished")

    def states_before(self, batch: int) -> DataFrame:
        """Return the counters and markers of each bucket after the batch before this one."""
        states = tables.read(self.spark, self.layout.states(self.query.name))
        before = tables.as_declared(states, "states").where(f"batch = {batch - 1}")
        return before.where("leave_us IS NULL OR content IS NULL")

    def state_before(self, batch: int) -> StateBefore:
        """Return where tasks of a batch find what the batches before it have left."""
        table = self.layout.states(self.query.name)
        ends = file_bounds(table, ("batch", "leave_us"))
        files = [
            StateFile(str(path.absolute()), *batches, last) for path, (batches, (_, last)) in ends.items()
        ]
        return StateBefore(str(table), batch, uuid4().hex[:16], SegmentFiles(tuple(files), batch))

    def append_states(self, found: DataFrame, batch: int) -> None:
        """Append what a batch changes about the states of the buckets."""
        states = found.where(f"kind = '{STATE}'").select("bucket", "part", "content", "leave_us")
        self.append(states, self.layout.states(self.query.name), "online", batch)
        crash_point("queries.state-appended")


def add(totals: dict[str, int], batch: Mapping[str, Any]) -> None:
    """Add a batch to totals."""
    totals["batches"] += 1
    for name in totals.keys() - {"batches"}:
        totals[name] += batch[name]


def by_bucket(rows: DataFrame, others: DataFrame, work: Work, columns: str) -> DataFrame:
    """Return what a task makes of each bucket's rows, and of the others that belong to it."""

    # Spark tells what a function takes by its signature, which an object with __call__ does not show it.
    def one(key: tuple[pa.Scalar, ...], rows: pa.Table, others: pa.Table) -> pa.Table:
        return work(key, rows, others)

    return rows.groupBy("bucket").cogroup(others.groupBy("bucket")).applyInArrow(one, parsed(columns))


def bucket_metrics(found: DataFrame, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return what each bucket says that it did."""
    rows = found.where(f"kind = '{METRICS}'").select("bucket", *(f"f_{name}" for name in names))
    return [
        {name.removeprefix("f_"): value for name, value in row.asDict().items()} for row in rows.collect()
    ]

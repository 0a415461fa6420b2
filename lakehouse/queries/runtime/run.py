"""Run a registered query batch by batch: what all kinds share, around the kind's own work on a batch.

A batch is finished when its metrics are in ``queries``. Everything that it reads was fixed before, its state is that
of the batch before, and each table is appended to once per batch. A batch that died anywhere can therefore run again
with the same result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.home.crashpoint import crash_point
from lakehouse.home.ledger import accepted_in
from lakehouse.home.query_meaning import require_same
from lakehouse.home.table_log import file_bounds
from lakehouse.home.table_reads import read_between
from lakehouse.queries.kind import Query, definition_of, kind_of, written_as
from lakehouse.queries.runtime.batch import MOST_ROWS, Through, next_batch
from lakehouse.queries.runtime.batch_manifest import ONE, Wanted, changes_at
from lakehouse.queries.runtime.bucket import STATE, SegmentFiles, StateBefore, StateFile
from lakehouse.queries.runtime.bucket_answers import Rows, fit_here, in_new_buckets, of_kind, with_constants
from lakehouse.queries.runtime.source import FromRaw, RowSource
from lakehouse.spark import tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.declare.stream import Stream
    from lakehouse.home.layout import Home
    from lakehouse.queries.runtime.batch_manifest import BatchManifest

Q = TypeVar("Q", bound=Query)
_STATES = ("bucket", "part", "content", "leave_us")


@dataclass(frozen=True)
class QueryRun(ABC, Generic[Q]):
    """A registered query and where it runs; ``counts``: the totals that ``finish`` returns."""

    counts: ClassVar[tuple[str, ...]]
    # The name of the table of metrics in sql/tables, if columns were added later.
    metrics_table: ClassVar[str] = ""
    spark: SparkSession
    layout: Home
    query: Q
    streams: Mapping[str, Stream]
    wanted: Wanted = ONE

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        layout: Home,
        query: Q,
        streams: Mapping[str, Stream],
        wanted: Wanted,
        sites: Mapping[str, Mapping[str, float]],
    ) -> Self:
        """Return a query and where it runs; ``wanted``: its number of buckets; ``sites`` as declared."""
        return cls(spark, layout, query, streams, wanted)

    @abstractmethod
    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, Any]:
        """Append all results of a batch, its metrics last; return its totals."""

    def create_tables(self) -> None:
        """Create the tables that do not exist, with the kind's ``tables.py``."""
        kind_of(self.query).file("tables").create_tables(self.layout, self.query, self.streams)

    def drain(self, most_rows: int = MOST_ROWS) -> dict[str, int]:
        """Process all finished ingest batches that no batch of the query has read; return the totals.

        Raises:
            QueryChanged: if the query means something other than its tables.
        """
        self.begin()
        totals = dict.fromkeys(("batches", *self.counts), 0)
        while (manifest := self.next(most_rows)) is not None:
            add(totals, self.finish(manifest, FromRaw(self.spark, self.layout, self.query, manifest.spans)))
        return totals

    def begin(self) -> None:
        """Create the tables that do not exist.

        Raises:
            QueryChanged: if the query means something other than its tables.
        """
        name, folder = self.query.name, self.layout.batch_manifests(self.query.name)
        require_same(folder, name, definition_of(self.query), written_as(self.query))
        self.create_tables()

    def next(self, most_rows: int, through: Through | None = None) -> BatchManifest | None:
        """Return the batch that was begun, or write the manifest of the next one; None if nothing is new."""
        return next_batch(self.layout, self.query, most_rows, through, self.through_repair(), self.cut)

    @property
    def cut(self) -> Wanted:
        """The number of buckets of a new batch."""
        return self.wanted

    def through_repair(self) -> int:
        """Return the last repair whose results a new batch uses."""
        return 0

    def append(
        self,
        rows: Rows,
        table: Path,
        how: str,
        number: int,
        counted_as: str = "batch",
        **constants: str | int | None,
    ) -> bool:
        """Append rows once, with constant columns; return False if that was done before.

        ``how``: ``online`` for rows of a batch, ``repair`` for rows of a repair; ``number`` is its number. If this
        process has the rows and there are none, nothing is appended.
        """
        writer = f"{'query' if how == 'online' else 'repair'}-{self.query.name}"
        numbered = with_constants(rows, {**constants, counted_as: number})
        if not isinstance(numbered, pa.Table):
            return tables.append_once(numbered, table, writer, number) is not None
        return (
            bool(numbered.num_rows) and tables.append_arrow_once(numbered, table, writer, number) is not None
        )

    def append_metrics(self, rows: Iterable[Mapping[str, Any]], batch: int, **times: Any) -> None:
        """Append the metrics of a batch, which finishes it; ``times`` are the same in every row."""
        stamp = {"batch": batch, **times, "committed_at": datetime.now(UTC)}
        table, writer = self.layout.queries(self.query.name), f"query-{self.query.name}"
        stamped = [{**row, **stamp} for row in rows]
        tables.append_rows(stamped, table, writer, batch, self.metrics_table)
        crash_point("queries.finished")

    def is_small(self, manifest: BatchManifest) -> bool:
        """Return whether this process handles the rows of a batch, rather than Spark."""
        return fit_here(accepted_in(self.layout, zip(self.query.streams, manifest.spans, strict=True)))

    def states_before(self, manifest: BatchManifest, rows: Rows) -> Rows:
        """Return each bucket's counters and markers after the batch before this one, where the batch's ``rows`` are."""
        table, batch, scales = self.layout.states(self.query.name), manifest.number, manifest.scales
        if isinstance(rows, pa.Table):
            all_states = read_between(table, ("batch", batch - 1, batch - 1)).select(list(_STATES))
            is_last = pc.or_(pc.is_null(all_states["leave_us"]), pc.is_null(all_states["content"]))
            before: Rows = all_states.filter(is_last)
        else:
            states = tables.as_declared(tables.read(self.spark, table), "states").where(
                f"batch = {batch - 1}"
            )
            before = states.where("leave_us IS NULL OR content IS NULL").select(*_STATES)
        if changes_at(scales, batch):
            return in_new_buckets(before, scales[-2].buckets, scales[-1].buckets)
        return before

    def state_before(self, manifest: BatchManifest) -> StateBefore:
        """Return where the tasks of a batch find the state that earlier batches left."""
        table, batch = self.layout.states(self.query.name), manifest.number
        ends = file_bounds(table, ("batch", "leave_us"))
        files = [
            StateFile(str(path.absolute()), *batches, last) for path, (batches, (_, last)) in ends.items()
        ]
        read = SegmentFiles(tuple(files), batch)
        return StateBefore(str(table), batch, uuid4().hex[:16], read, manifest.scales)

    def append_states(self, found: Rows, batch: int) -> None:
        """Append the changes of a batch to the states of the buckets."""
        states = of_kind(found, STATE, {name: name for name in _STATES})
        self.append(states, self.layout.states(self.query.name), "online", batch)
        crash_point("queries.state-appended")


def add(totals: dict[str, int], batch: Mapping[str, Any]) -> None:
    """Add a batch to totals."""
    totals["batches"] += 1
    for name in totals.keys() - {"batches"}:
        totals[name] += batch[name]

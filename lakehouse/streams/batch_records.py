"""The records of one ingest batch: a manifest's lines as typed rows, each with its reason for rejection or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.home.ledger import read_extent
from lakehouse.spark import tables
from lakehouse.streams.quarantine import requeued_lines
from lakehouse.streams.sources.few_messages import read_few
from lakehouse.streams.sources.fields import with_fields
from lakehouse.streams.sources.line_set import LineSet
from lakehouse.streams.sources.lines import read_lines
from lakehouse.streams.sources.manifest import Manifest
from lakehouse.streams.sources.manifest_store import ManifestStore
from lakehouse.streams.sources.messages import messages_beside, read_messages
from lakehouse.streams.sources.numbered import NumberedLines
from lakehouse.streams.sources.rows import typed_rows

ORIGIN = ["source_file", "source_line", "source_item"]
REJECTED = ["reason", "detail", "record", *ORIGIN, "message"]


@dataclass(frozen=True)
class Progress:
    """How far a stream has come: its last finished batch (0 for none) and the newest event time accepted."""

    batch: int
    newest_us: int | None


@dataclass(frozen=True)
class StreamTables:
    """The tables an ingest of one stream writes."""

    spark: SparkSession
    layout: Home
    stream: Stream

    def create(self) -> bool:
        """Create those that are not there yet; the ledger is last, so when it is there all are."""
        name = self.stream.name
        if tables.exists(self.layout.ledger(name)):
            return False
        tables.side_by_side(
            lambda: tables.create_raw(self.layout.raw(name), self.stream),
            lambda: tables.create_quarantine(self.layout.quarantine(name)),
        )
        tables.create_ledger(self.layout.ledger(name))
        return True

    def progress(self) -> Progress:
        """Return how far the ledger has come."""
        extent = read_extent(self.layout, self.stream.name)
        return Progress(extent.batch, extent.newest_us)


@dataclass(frozen=True)
class BatchRecords:
    """The records of one manifest, and how far the stream had come before them.

    ``one_by_one``: its messages are read without Spark's reader, since one has a time that this cannot hold.
    """

    tables: StreamTables
    manifest: Manifest
    store: ManifestStore
    before: Progress
    one_by_one: bool = False

    @property
    def stream(self) -> Stream:
        """The stream as it is declared."""
        return self.tables.stream

    @cached_property
    def lines(self) -> NumberedLines:
        """The numbered lines of the batch."""
        spark, stream = self.tables.spark, self.tables.stream
        if self.manifest.kind == "requeue":
            return requeued_lines(spark, self.tables.layout, stream, self.store, self.manifest)
        if self.manifest.kind == "kafka":
            read = read_few if self.one_by_one else read_messages
            return read(spark, self.manifest.ranges, stream.source)
        return read_lines(spark, self.manifest.files, stream)

    @property
    def rows(self) -> DataFrame:
        """Every row of the batch, typed, with its reason for rejection."""
        frame, stream = self.lines.frame, self.stream
        rows = typed_rows(with_fields(frame, stream, self.lines.layouts), stream)
        if self.manifest.kind != "requeue":
            return rows
        wanted = frame.select(*ORIGIN[:2], "items")
        taken = rows.join(wanted, ORIGIN[:2]).where(F.array_contains("items", F.col("source_item")))
        return taken.drop("items")

    def rejected_beside(self, accepted: Mapping[str, LineSet]) -> DataFrame:
        """The records of the batch that are refused, with their reasons, when lines with ``accepted`` rows are known.

        Only the other lines are parsed again; where a line may hold several rows, all are.
        """
        stream, manifest = self.stream, self.manifest
        if stream.source.has_items:
            return self.rejected
        if manifest.kind == "kafka":
            others = self.tables.spark.createDataFrame(messages_beside(manifest.ranges, accepted))
            frame = self.lines.frame.join(F.broadcast(others), ORIGIN[:2], "left_semi")
        else:
            frame = read_lines(self.tables.spark, manifest.files, stream, accepted).frame
        return _rejected_of(typed_rows(with_fields(frame, stream, self.lines.layouts), stream))

    @property
    def rejected(self) -> DataFrame:
        """The records of the batch that are refused, with their reasons."""
        return _rejected_of(self.rows)

    @property
    def can_stream(self) -> bool:
        """Whether rows can be written as they are read: none is compared with another."""
        is_read = self.manifest.kind in ("files", "kafka")
        return is_read and not self.stream.identity


def _rejected_of(rows: DataFrame) -> DataFrame:
    # Spark pushes no filter below an observation. Pushed down, this filter would parse the record again for each
    # field that the verdict mentions: ten times the work of reading the batch.
    judged = rows.observe(Observation(), F.count(F.lit(1)).alias("rows"))
    return judged.where(F.col("reason").isNotNull()).select(*REJECTED)

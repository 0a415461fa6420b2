"""A batch of a join-aggregate: every bucket in one call, then state, log, answers, alarms, and last metrics.

Answers follow from the parts that buckets return: those of groups that several buckets have are combined.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.algorithms.join_aggregate.contract import Shape
from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.home.crashpoint import crash_point
from lakehouse.queries.aggregate import alarms
from lakehouse.queries.aggregate.answers import answers_of, with_earlier
from lakehouse.queries.aggregate.bucket import PART, BucketAggregate
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.rows import raw_rows
from lakehouse.queries.aggregate.shape import shape_of
from lakehouse.queries.aggregate.tables import group_types, part_types
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.bucket import LOG
from lakehouse.queries.runtime.progress import Progress, progress, progress_before
from lakehouse.queries.runtime.run import QueryRun, bucket_metrics, by_bucket
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tables import parsed
from lakehouse.spark import tables

_TAKEN = ("rows", "late", "missed", "refused", "unusable", "held", "bytes")
_TICKS = ("first_us", "first_revised_us", "last_revised_us")


@dataclass(frozen=True)
class AggregateRun(QueryRun[AggregateQuery]):
    """A registered join-aggregate and where it runs."""

    counts = ("rows", "answered", "revised", "late", "missed", "refused", "unusable")

    @cached_property
    def shape(self) -> Shape:
        """What the query is to a method."""
        return shape_of(self.query)

    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, int]:
        """Append all that a batch comes to, its metrics last; return its totals."""
        before = progress_before(self.layout, self.query, manifest.number)
        rows = raw_rows(source, self.query, self.streams, self.buckets)
        after = progress(self.spark, self.layout, self.query, manifest, before)
        found = self._taken_in(manifest.number, rows, before, after).persist()
        try:
            return self._write(found, manifest.number, before, after, source)
        finally:
            found.unpersist()

    def answer(self, found: DataFrame, ticks: Ticks, how: str, batch: int) -> Answered:
        """Append the answers that the buckets' parts, with the answers before them, come to; return how many."""
        if ticks.first_us is None:
            return Answered(0, 0)
        table = self.layout.answers(self.query.name)
        parts = self._parts_of(found)
        if ticks.first_revised_us is not None:
            parts = with_earlier(parts, self._earlier(ticks, how, batch), self.query)
        answers = answers_of(parts, self.query, self.shape, self.streams, self.buckets)
        counts = (
            F.count_if(F.col("revision") == 0).alias("new"),
            F.count_if(F.col("revision") > 0).alias("old"),
        )
        seen = Observation()
        if self.append(answers.withColumn("found", F.lit(how)).observe(seen, *counts), table, how, batch):
            return Answered(seen.get["new"], seen.get["old"])
        own = tables.read(self.spark, table).where((F.col("found") == how) & (F.col("batch") == batch))
        return Answered(*(own.agg(*counts).first() or (0, 0)))

    def follow_alarms(self, changed: alarms.Changed | None, how: str, batch: int) -> None:
        """Append what changed answers change about alarms, if the query raises any."""
        layout, query = self.layout, self.query
        if not query.is_alarm or changed is None:
            return
        places = layout.alarms(query.name), layout.answers(query.name)
        rows = alarms.changes(self.spark, query, self.streams, *places, changed, how, batch, self.buckets)
        self.append(rows.withColumn("found", F.lit(how)), layout.alarms(query.name), how, batch)
        crash_point("queries.alarmed")

    def _taken_in(self, batch: int, rows: DataFrame, before: Progress, after: Progress) -> DataFrame:
        schema = to_arrow_schema(parsed(self.columns()))
        times = before.until_us, after.until_us
        work = BucketAggregate(self.query, self.shape, schema, self.state_before(batch), *times)
        return by_bucket(rows, self.states_before(batch), work, self.columns())

    def columns(self) -> str:
        """Return the columns of what a task returns, as SQL writes them."""
        groups = "".join(
            f", `g_{name}` {kind}" for name, kind in group_types(self.query, self.streams).items()
        )
        parts = "".join(f", {name} {kind}" for name, kind in part_types(len(self.shape.aggregates)).items())
        metrics = "".join(f", f_{name} bigint" for name in (*_TAKEN, *_TICKS))
        rows = "side int, row bigint, event_us bigint, horizon_us bigint"
        ticks = f"tick_us bigint, results bigint{groups}{parts}"
        return (
            f"kind string, bucket int, part string, content binary, leave_us bigint, {rows}, {ticks}{metrics}"
        )

    def _parts_of(self, found: DataFrame) -> DataFrame:
        """Return the buckets' parts with the columns that answers have; what is not answered yet has no revision."""
        groups = [F.col(f"g_{group.name}").alias(group.name) for group in self.query.groups]
        own = ["results", *part_types(len(self.shape.aggregates))]
        revision = F.lit(None).cast("int").alias("revision")
        return found.where(f"kind = '{PART}'").select("tick_us", *groups, "bucket", revision, *own)

    def _earlier(self, ticks: Ticks, how: str, batch: int) -> DataFrame:
        """Return the answers of the ticks that are revised, but for those of this batch or repair."""
        answers = tables.read(self.spark, self.layout.answers(self.query.name))
        between = F.col("tick_us").between(F.lit(ticks.first_revised_us), F.lit(ticks.last_revised_us))
        return answers.where(between & ~((F.col("found") == how) & (F.col("batch") == batch)))

    def metrics(self, found: DataFrame) -> tuple[list[dict[str, Any]], Ticks]:
        """Return what each bucket did, and which ticks have parts."""
        buckets = bucket_metrics(found, (*_TAKEN, *_TICKS))
        first, revised, last = (
            [row.pop(name) for row in buckets if row[name] is not None] for name in _TICKS
        )
        return buckets, Ticks(min(first, default=None), min(revised, default=None), max(last, default=None))

    def _write(
        self, found: DataFrame, batch: int, before: Progress, after: Progress, source: RowSource
    ) -> dict[str, int]:
        layout, name = self.layout, self.query.name
        crash_point("queries.joined")
        buckets, ticks = self.metrics(found)
        self.append_states(found, batch)
        if any(row["missed"] or row["refused"] for row in buckets):
            self.append(self._log(found, before), layout.missed_rows(name), "online", batch)
        answered = self.answer(found, ticks, "online", batch)
        crash_point("queries.outputs-appended")
        self.follow_alarms(self._changed(ticks, before, after), "online", batch)
        source.record_metrics(sum(row["rows"] for row in buckets), answered.new + answered.revised)
        given = {"answered": answered.new, "revised": answered.revised}
        times = {"time_us": after.until_us, "newest_us": list(after.newest_us)}
        self.append_metrics([*buckets, {"bucket": -1, **given}], batch, **times)
        return {name: sum(row[name] for row in buckets) for name in _TAKEN} | given

    def _log(self, found: DataFrame, before: Progress) -> DataFrame:
        time = F.lit(before.until_us).cast("bigint").alias("time_us")
        columns = (F.col("part").alias("what"), "bucket", "side", "row", "event_us", "horizon_us", time)
        return found.where(f"kind = '{LOG}'").select(*columns)

    def _changed(self, ticks: Ticks, before: Progress, after: Progress) -> alarms.Changed | None:
        if after.until_us is None:
            return None
        every = self.query.every_us
        last = floor_to(every, after.until_us)
        # Before the first answer nothing can have raised an alarm.
        first = last if before.until_us is None else floor_to(every, before.until_us) + every
        return alarms.Changed(first if ticks.first_us is None else min(first, ticks.first_us), last)


@dataclass(frozen=True)
class Ticks:
    """The first tick that has parts, and the first and last of those that were answered before; None for none."""

    first_us: int | None
    first_revised_us: int | None
    last_revised_us: int | None


@dataclass(frozen=True)
class Answered:
    """How many ticks and groups were answered for the first time, and again."""

    new: int
    revised: int


run_of = AggregateRun.of

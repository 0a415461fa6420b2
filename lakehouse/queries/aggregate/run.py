"""A batch of a join-aggregate: every bucket in one call, then state, log, answers, alarms, and last metrics.

Answers follow from the parts that buckets return: those of groups that several buckets have are combined.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.algorithms.join_aggregate.contract import Shape
from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.table_log import Between, most_rows
from lakehouse.home.table_reads import read_between
from lakehouse.queries.aggregate import alarms
from lakehouse.queries.aggregate.answers import NEW, answers_of, with_earlier
from lakehouse.queries.aggregate.bucket import PART, BucketAggregate
from lakehouse.queries.aggregate.query import AggregateQuery, shape_of
from lakehouse.queries.aggregate.rows import raw_rows, raw_rows_here
from lakehouse.queries.aggregate.tables import group_types, part_types
from lakehouse.queries.runtime.batch_manifest import ONE, BatchManifest, Wanted, finished, last_manifest
from lakehouse.queries.runtime.bucket import LOG
from lakehouse.queries.runtime.bucket_answers import (
    Rows,
    TooLarge,
    bucket_metrics,
    by_bucket,
    computed_once,
    fit_here,
    of_kind,
    with_constants,
)
from lakehouse.queries.runtime.progress import Progress, progress, progress_before
from lakehouse.queries.runtime.run import QueryRun
from lakehouse.queries.runtime.source import RowSource
from lakehouse.spark import tables
from lakehouse.spark.ddl import schema_of

_TAKEN = ("rows", "late", "missed", "refused", "unusable", "held", "bytes")
_LOG_COLUMNS = {
    "what": "part",
    **{name: name for name in ("bucket", "side", "row", "event_us", "horizon_us")},
}
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
        after = progress(self.layout, self.query, manifest, before)
        try:
            read = raw_rows_here if self.is_small(manifest) else raw_rows
            rows: Rows = read(source, self.query, self.streams, manifest.buckets)
            found = self._taken_in(manifest, rows, before, after)
        except TooLarge:
            rows = raw_rows(source, self.query, self.streams, manifest.buckets)
            found = self._taken_in(manifest, rows, before, after)
        with computed_once(found) as kept:
            return self._write(kept, manifest.number, before, after, source)

    @property
    def cut(self) -> Wanted:
        """How many buckets a batch that is written down now is cut into: one where no column is common to all sides."""
        return self.wanted if self.query.bucketed_by else ONE

    @property
    def places(self) -> int:
        """How many tasks of Spark share what buckets have found."""
        folder, done = self.layout.batch_manifests(self.query.name), finished(self.layout, self.query.name)
        last = last_manifest(folder, "batch", done)
        return last.buckets if last else 1

    def answer(self, found: Rows, ticks: Ticks, how: str, batch: int) -> Answered:
        """Append the answers that the buckets' parts, with the answers before them, come to; return how many."""
        if ticks.first_us is None:
            return Answered(0, 0)
        table = self.layout.answers(self.query.name)
        parts = self._parts_of(found)
        if ticks.first_revised_us is not None:
            revised = "tick_us", ticks.first_revised_us, ticks.last_revised_us
            if isinstance(parts, pa.Table) and not fit_here(most_rows(table, revised)):
                parts = self.spark.createDataFrame(parts)
            parts = with_earlier(parts, self._earlier(parts, revised, how, batch), self.query)
        answers = answers_of(parts, self.query, self.shape, self.streams, self.places)
        if isinstance(answers, pa.Table):
            self.append(answers, table, how, batch, found=how)
            new = pc.sum(pc.equal(answers["revision"], 0)).as_py() or 0
            return Answered(new, answers.num_rows - new)
        counts = (
            F.count_if(F.col("revision") == 0).alias("new"),
            F.count_if(F.col("revision") > 0).alias("old"),
        )
        seen = Observation()
        if self.append(answers.observe(seen, *counts), table, how, batch, found=how):
            return Answered(seen.get["new"], seen.get["old"])
        own = tables.read(self.spark, table).where((F.col("found") == how) & (F.col("batch") == batch))
        return Answered(*(own.agg(*counts).first() or (0, 0)))

    def follow_alarms(self, changed: alarms.Changed | None, how: str, batch: int) -> None:
        """Append what changed answers change about alarms, if the query raises any."""
        layout, query = self.layout, self.query
        if not query.is_alarm or changed is None:
            return
        places = layout.alarms(query.name), layout.answers(query.name)
        rows = alarms.changes(self.spark, query, self.streams, *places, changed, how, batch, self.places)
        self.append(rows, layout.alarms(query.name), how, batch, found=how)
        crash_point("queries.alarmed")

    def _taken_in(self, manifest: BatchManifest, rows: Rows, before: Progress, after: Progress) -> Rows:
        schema = to_arrow_schema(schema_of(self.columns()))
        times = before.until_us, after.until_us
        work = BucketAggregate(self.query, self.shape, schema, self.state_before(manifest), *times)
        return by_bucket(rows, self.states_before(manifest, rows), work, self.columns())

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

    def _parts_of(self, found: Rows) -> Rows:
        """Return the buckets' parts with the columns that answers have, as not answered yet."""
        groups = {group.name: f"g_{group.name}" for group in self.query.groups}
        own = {name: name for name in ("bucket", "results", *part_types(len(self.shape.aggregates)))}
        return with_constants(
            of_kind(found, PART, {"tick_us": "tick_us", **groups, **own}), {"revision": NEW}
        )

    def _earlier(self, parts: Rows, revised: Between, how: str, batch: int) -> Rows:
        """Return the answers of the ticks that are revised, but for those of this batch or repair, where parts are."""
        table, (_, first, last) = self.layout.answers(self.query.name), revised
        if isinstance(parts, pa.Table):
            earlier = read_between(table, revised)
            return earlier.filter((pc.field("found") != how) | (pc.field("batch") != batch))
        answers = tables.read(self.spark, table).where(F.col("tick_us").between(F.lit(first), F.lit(last)))
        return answers.where(~((F.col("found") == how) & (F.col("batch") == batch)))

    def metrics(self, found: Rows) -> tuple[list[dict[str, Any]], Ticks]:
        """Return what each bucket did, and which ticks have parts."""
        buckets = bucket_metrics(found, (*_TAKEN, *_TICKS))
        first, revised, last = (
            [row.pop(name) for row in buckets if row[name] is not None] for name in _TICKS
        )
        return buckets, Ticks(min(first, default=None), min(revised, default=None), max(last, default=None))

    def _write(
        self, found: Rows, batch: int, before: Progress, after: Progress, source: RowSource
    ) -> dict[str, int]:
        layout, name = self.layout, self.query.name
        crash_point("queries.joined")
        buckets, ticks = self.metrics(found)
        self.append_states(found, batch)
        if any(row["missed"] or row["refused"] for row in buckets):
            log = of_kind(found, LOG, _LOG_COLUMNS)
            self.append(log, layout.missed_rows(name), "online", batch, time_us=before.until_us)
        answered = self.answer(found, ticks, "online", batch)
        crash_point("queries.outputs-appended")
        self.follow_alarms(self._changed(ticks, before, after), "online", batch)
        source.record_metrics(sum(row["rows"] for row in buckets), answered.new + answered.revised)
        given = {"answered": answered.new, "revised": answered.revised}
        times = {"time_us": after.until_us, "newest_us": list(after.newest_us)}
        self.append_metrics([*buckets, {"bucket": -1, **given}], batch, **times)
        return {name: sum(row[name] for row in buckets) for name in _TAKEN} | given

    def _changed(self, ticks: Ticks, before: Progress, after: Progress) -> alarms.Changed | None:
        if after.until_us is None:
            return None
        every = self.query.every_us
        last = floor_to(every, after.until_us)
        # Before the first answer nothing can have raised an alarm.
        first = last if before.until_us is None else floor_to(every, before.until_us) + every
        if ticks.first_us is None and last < first:
            return None
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

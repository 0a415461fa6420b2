"""A batch of a join-aggregate: every bucket in one call, then state, log, answers, alarms, and last figures.

A batch is finished when its figures are there. All it reads was written down before (``plans``), its state is that of
the batch before, and each table is appended once per batch: so a batch that died anywhere is simply made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.algorithms.join_aggregate.contract import Shape
from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.declare.stream import Stream
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.queries.aggregate import alarms
from lakehouse.queries.aggregate.answers import answers_of, with_earlier
from lakehouse.queries.aggregate.bucket import FIGURES, LATE, PART, STATE, BucketAggregate
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.rows import believed_times, raw_rows
from lakehouse.queries.aggregate.shape import shape_of
from lakehouse.queries.aggregate.tables import create_tables, group_types, part_types
from lakehouse.queries.runtime.batch import MOST_ROWS, Through, next_batch
from lakehouse.queries.runtime.batch_manifest import Plan, definition_of, require_same
from lakehouse.queries.runtime.drain import drain
from lakehouse.queries.runtime.progress import Progress, progress, progress_before
from lakehouse.queries.runtime.source import Intake
from lakehouse.queries.runtime.tables import parsed
from lakehouse.spark import tables

COUNTS = ("rows", "answered", "revised", "late", "missed", "refused", "unusable")
_TAKEN = ("rows", "late", "missed", "refused", "unusable", "held", "bytes")
_TICKS = ("first_us", "first_revised_us", "last_revised_us")


@dataclass(frozen=True)
class Run:
    """A registered join-aggregate and where it runs."""

    spark: SparkSession
    layout: Home
    query: AggregateQuery
    streams: Mapping[str, Stream]
    buckets: int

    @cached_property
    def shape(self) -> Shape:
        """What the query is to a method."""
        return shape_of(self.query)

    counts = COUNTS

    def drain(self, most_rows: int = MOST_ROWS) -> dict[str, int]:
        """Take in, by itself, all finished ingest batches that no batch of the query holds yet; see ``query_run``."""
        return drain(self, most_rows)

    def begin(self) -> None:
        """Create the tables that are not there.

        Raises:
            QueryChanged: when the query means something else than its tables.
        """
        layout, query = self.layout, self.query
        require_same(layout.plans(query.name), query.name, definition_of(query, self.buckets))
        create_tables(self.spark, layout, query, self.streams, len(self.shape.aggregates))

    def next(self, most_rows: int, through: Through | None = None) -> Plan | None:
        """Return the batch that was begun, or write down the next one; None when all is taken."""
        return next_batch(self.layout, self.query, most_rows, through)

    def finish(self, plan: Plan, intake: Intake) -> dict[str, int]:
        """Append all that a batch comes to, its figures last; return these."""
        before = progress_before(self.layout, self.query, plan.number)
        rows = raw_rows(intake, self.query, self.streams, self.buckets)
        believed = believed_times(self.spark, self.layout, self.query, plan.spans)
        after = progress(self.layout, self.query, plan, before, believed)
        found = self._taken_in(plan.number, rows, before, after).persist()
        try:
            return self._write(found, plan.number, before, after, intake)
        finally:
            found.unpersist()

    def append(self, rows: DataFrame, table: Path, found: str, batch: int) -> bool:
        """Append rows of a batch, or of a repair, once; return False where that was done before."""
        writer = f"{'query' if found == 'online' else 'repair'}-{self.query.name}"
        stamped = rows.withColumn("batch", F.lit(batch).cast("bigint"))
        return tables.append_once(stamped, table, writer, batch) is not None

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
        states = tables.read(self.spark, self.layout.states(self.query.name)).where(f"batch = {batch - 1}")
        schema = parsed(self.columns())
        work = BucketAggregate(
            self.query, self.shape, to_arrow_schema(schema), before.until_us, after.until_us
        )

        def one(key: tuple[pa.Scalar, ...], rows: pa.Table, state: pa.Table) -> pa.Table:
            return work(key, rows, state)

        return rows.groupBy("bucket").cogroup(states.groupBy("bucket")).applyInArrow(one, schema)

    def columns(self) -> str:
        """Return the columns of what a task returns, as SQL writes them."""
        groups = "".join(
            f", `g_{name}` {kind}" for name, kind in group_types(self.query, self.streams).items()
        )
        parts = "".join(f", {name} {kind}" for name, kind in part_types(len(self.shape.aggregates)).items())
        figures = "".join(f", f_{name} bigint" for name in (*_TAKEN, *_TICKS))
        rows = "side int, row bigint, event_us bigint, horizon_us bigint"
        ticks = f"tick_us bigint, results bigint{groups}{parts}"
        return f"kind string, bucket int, part string, content binary, {rows}, {ticks}{figures}"

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

    def figures(self, found: DataFrame) -> tuple[list[dict[str, Any]], Ticks]:
        """Return what each bucket did, and which ticks have parts."""
        names = [f"f_{name}" for name in (*_TAKEN, *_TICKS)]
        rows = found.where(f"kind = '{FIGURES}'").select("bucket", *names).collect()
        buckets = [{each.removeprefix("f_"): value for each, value in row.asDict().items()} for row in rows]
        first, revised, last = (
            [row.pop(name) for row in buckets if row[name] is not None] for name in _TICKS
        )
        return buckets, Ticks(min(first, default=None), min(revised, default=None), max(last, default=None))

    def _write(
        self, found: DataFrame, batch: int, before: Progress, after: Progress, intake: Intake
    ) -> dict[str, int]:
        layout, name = self.layout, self.query.name
        crash_point("queries.joined")
        buckets, ticks = self.figures(found)
        states = found.where(f"kind = '{STATE}'").select("bucket", "part", "content")
        self.append(states, layout.states(name), "online", batch)
        crash_point("queries.state-appended")
        if any(row["missed"] or row["refused"] for row in buckets):
            self.append(self._late(found, before), layout.late(name), "online", batch)
        answered = self.answer(found, ticks, "online", batch)
        crash_point("queries.outputs-appended")
        self.follow_alarms(self._changed(ticks, before, after), "online", batch)
        intake.note(sum(row["rows"] for row in buckets), answered.new + answered.revised)
        return self._append_figures(buckets, batch, answered, after)

    def _late(self, found: DataFrame, before: Progress) -> DataFrame:
        time = F.lit(before.until_us).cast("bigint").alias("time_us")
        columns = (F.col("part").alias("what"), "bucket", "side", "row", "event_us", "horizon_us", time)
        return found.where(f"kind = '{LATE}'").select(*columns)

    def _changed(self, ticks: Ticks, before: Progress, after: Progress) -> alarms.Changed | None:
        if after.until_us is None:
            return None
        every = self.query.every_us
        last = floor_to(every, after.until_us)
        # Before the first answer nothing can have raised an alarm.
        first = last if before.until_us is None else floor_to(every, before.until_us) + every
        return alarms.Changed(first if ticks.first_us is None else min(first, ticks.first_us), last)

    def _append_figures(
        self, buckets: Sequence[Mapping[str, Any]], batch: int, answered: Answered, after: Progress
    ) -> dict[str, int]:
        given = {"answered": answered.new, "revised": answered.revised}
        times = {"time_us": after.until_us, "newest_us": list(after.newest_us)}
        stamp = {"batch": batch, **times, "committed_at": datetime.now(UTC)}
        rows = [{**row, **stamp} for row in (*buckets, {"bucket": -1, **given})]
        table, writer = self.layout.queries(self.query.name), f"query-{self.query.name}"
        tables.append_rows(self.spark, rows, table, writer, batch)
        crash_point("queries.finished")
        return {name: sum(row[name] for row in buckets) for name in _TAKEN} | given


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

"""A batch of a window join: every bucket in one call, then its state, its pairs and log, and last its figures.

A batch is finished when its figures are there. All it reads was written down before (``plans``), its state is that of
the batch before, and each table is appended once per batch: so a batch that died anywhere is simply made again. Pairs
and log of a batch that is not finished may be there already; they are those that it will have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.declare.stream import Stream
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.home.table_log import bounds
from lakehouse.queries.pairs.bucket import FIGURES, LATE, PAIR, STATE, BucketJoin, Newest
from lakehouse.queries.pairs.needed_slack import told_by_bucket
from lakehouse.queries.pairs.rows import in_buckets, raw_rows
from lakehouse.queries.pairs.tables import create_tables
from lakehouse.queries.registered import PairsQuery
from lakehouse.queries.runtime.batch import MOST_ROWS, Through, next_batch
from lakehouse.queries.runtime.batch_manifest import Plan, definition_of, last_repair, require_same
from lakehouse.queries.runtime.drain import drain
from lakehouse.queries.runtime.source import Intake
from lakehouse.queries.runtime.tables import output_types, parsed
from lakehouse.spark import tables

COUNTS = ("rows", "pairs", "missed", "refused", "unusable")


@dataclass(frozen=True)
class Run:
    """A registered join and where it runs."""

    spark: SparkSession
    layout: Home
    query: PairsQuery
    streams: Mapping[str, Stream]
    buckets: int

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
        create_tables(self.spark, layout, query, self.streams)

    def next(self, most_rows: int, through: Through | None = None) -> Plan | None:
        """Return the batch that was begun, or write down the next one; None when all is taken."""
        told = last_repair(self.layout, self.query.name)
        return next_batch(self.layout, self.query, most_rows, through, told)

    def finish(self, plan: Plan, intake: Intake) -> dict[str, int]:
        """Append all that a batch comes to, its figures last; return these."""
        found = self.answers(plan, intake).persist()
        try:
            return self._write(found, plan.number, intake)
        finally:
            found.unpersist()

    def answers(self, plan: Plan, intake: Intake) -> DataFrame:
        """Return all buckets' answers to a batch: pairs, log, state and figures, computed when they are read."""
        layout, query = self.layout, self.query
        rows = in_buckets(raw_rows(intake, query, self.streams), query, self.buckets)
        states = tables.read(self.spark, layout.states(query.name)).where(f"batch = {plan.number - 1}")
        schema = parsed(self._answer())
        known = newest(layout, query.name, plan.number)
        work = BucketJoin(query, to_arrow_schema(schema), known, told_by_bucket(layout, query, plan))

        def one(key: tuple[pa.Scalar, ...], rows: pa.Table, state: pa.Table) -> pa.Table:
            return work(key, rows, state)

        return rows.groupBy("bucket").cogroup(states.groupBy("bucket")).applyInArrow(one, schema)

    def _answer(self) -> str:
        types = output_types(self.query, self.streams)
        shown = "".join(f", `o_{name}` {kind}" for name, kind in types.items())
        figures = "".join(f", f_{name} bigint" for name in FIGURE_NAMES)
        times = "event_us bigint, left_us bigint, right_us bigint, wait_us bigint, horizon_us bigint, time_us bigint"
        rows = "left_row bigint, right_row bigint, row bigint, side int"
        return f"kind string, bucket int, part string, content binary, {rows}, {times}{figures}{shown}"

    def _write(self, found: DataFrame, batch: int, intake: Intake) -> dict[str, int]:
        layout, name = self.layout, self.query.name
        crash_point("queries.joined")
        states = found.where(f"kind = '{STATE}'").select("bucket", "part", "content")
        self._append(states, layout.states(name), batch)
        crash_point("queries.state-appended")
        shown = [F.col(f"o_{output.name}").alias(output.name) for output in self.query.outputs]
        pairs = found.where(f"kind = '{PAIR}'").select(*PAIR_COLUMNS, F.lit("online").alias("found"), *shown)
        late = found.where(f"kind = '{LATE}'").select(F.col("part").alias("what"), "bucket", *LATE_COLUMNS)
        tables.side_by_side(
            lambda: self._append(pairs, layout.joins(name), batch),
            lambda: self._append(late, layout.late(name), batch),
        )
        crash_point("queries.outputs-appended")
        figures = self._figures(found)
        totals = {count: sum(row[count] for row in figures) for count in COUNTS}
        intake.note(totals["rows"], totals["pairs"])
        self._append_figures(figures, batch)
        return totals

    def _figures(self, found: DataFrame) -> list[dict[str, Any]]:
        told = found.where(f"kind = '{FIGURES}'").select("bucket", *(f"f_{each}" for each in FIGURE_NAMES))
        return [
            {each.removeprefix("f_"): value for each, value in row.asDict().items()} for row in told.collect()
        ]

    def _append(self, rows: DataFrame, table: Any, batch: int) -> None:
        numbered = rows.withColumn("batch", F.lit(batch).cast("bigint"))
        tables.append_once(numbered, table, f"query-{self.query.name}", batch)

    def _append_figures(self, figures: Sequence[Mapping[str, Any]], batch: int) -> None:
        whole = [*figures] or [{"bucket": -1, **dict.fromkeys(FIGURE_NAMES)}]
        stamp = {"batch": batch, "committed_at": datetime.now(UTC)}
        table = self.layout.queries(self.query.name)
        tables.append_rows(
            self.spark, [{**row, **stamp} for row in whole], table, f"query-{self.query.name}", batch
        )
        crash_point("queries.finished")


PAIR_COLUMNS = ("event_us", "left_us", "right_us", "left_row", "right_row", "wait_us")
LATE_COLUMNS = ("side", "row", "event_us", "horizon_us", "time_us")
FIGURE_NAMES = (
    *("rows", "pairs", "missed", "refused", "unusable", "late_after_silence", "held", "most_held", "bytes"),
    *("left_slack_us", "right_slack_us", "time_us", "left_newest_us", "right_newest_us"),
)


def newest(layout: Home, query: str, batch: int) -> Newest:
    """Return the newest time believed of each side in the batches before this one."""
    columns, before = ("left_newest_us", "right_newest_us"), ("batch", 1, batch - 1)
    (_, left), (_, right) = bounds(layout.queries(query), columns, before)
    return left, right

"""A batch of a window join: every bucket in one call, then its state, its pairs and log, and last its metrics.

Pairs and log of a batch that is not finished may be there already; they are those that it will have.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.home.table_log import bounds
from lakehouse.queries.pairs.bucket import PAIR, BucketJoin, Newest
from lakehouse.queries.pairs.needed_slack import missed_by_bucket
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.rows import in_buckets, raw_rows
from lakehouse.queries.runtime.batch_manifest import BatchManifest, last_repair
from lakehouse.queries.runtime.bucket import LOG
from lakehouse.queries.runtime.run import QueryRun, bucket_metrics, by_bucket
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tables import output_types, parsed
from lakehouse.spark import tables

PAIR_COLUMNS = ("event_us", "left_us", "right_us", "left_row", "right_row", "wait_us")
LOG_COLUMNS = ("side", "row", "event_us", "horizon_us", "time_us")
METRIC_NAMES = (
    *("rows", "pairs", "missed", "refused", "unusable", "late_after_silence", "held", "most_held", "bytes"),
    *("left_slack_us", "right_slack_us", "time_us", "left_newest_us", "right_newest_us"),
)


@dataclass(frozen=True)
class PairsRun(QueryRun[PairsQuery]):
    """A registered window join and where it runs."""

    counts = ("rows", "pairs", "missed", "refused", "unusable")

    def through_repair(self) -> int:
        """Return the last finished repair: what it found had been missed tells how much slack is needed."""
        return last_repair(self.layout, self.query.name)

    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, int]:
        """Append all that a batch comes to, its metrics last; return its totals."""
        found = self.answers(manifest, source).persist()
        try:
            return self._write(found, manifest.number, source)
        finally:
            found.unpersist()

    def answers(self, manifest: BatchManifest, source: RowSource) -> DataFrame:
        """Return all buckets' answers to a batch: pairs, log, state and metrics, computed when they are read."""
        layout, query = self.layout, self.query
        rows = in_buckets(raw_rows(source, query, self.streams), query, self.buckets)
        known, columns = newest(layout, query.name, manifest.number), self._answer()
        missed, before = missed_by_bucket(layout, query, manifest), self.state_before(manifest.number)
        work = BucketJoin(query, to_arrow_schema(parsed(columns)), before, known, missed)
        return by_bucket(rows, self.states_before(manifest.number), work, columns)

    def _answer(self) -> str:
        types = output_types(self.query, self.streams)
        shown = "".join(f", `o_{name}` {kind}" for name, kind in types.items())
        metrics = "".join(f", f_{name} bigint" for name in METRIC_NAMES)
        times = "event_us bigint, left_us bigint, right_us bigint, wait_us bigint, horizon_us bigint, time_us bigint"
        rows = "left_row bigint, right_row bigint, row bigint, side int"
        return f"kind string, bucket int, part string, content binary, leave_us bigint, {rows}, {times}{metrics}{shown}"

    def _write(self, found: DataFrame, batch: int, source: RowSource) -> dict[str, int]:
        layout, name = self.layout, self.query.name
        crash_point("queries.joined")
        self.append_states(found, batch)
        pairs = self.shown(found.where(f"kind = '{PAIR}'"), "online")
        log = found.where(f"kind = '{LOG}'").select(F.col("part").alias("what"), "bucket", *LOG_COLUMNS)
        tables.side_by_side(
            lambda: self.append(pairs, layout.pairs(name), "online", batch),
            lambda: self.append(log, layout.missed_rows(name), "online", batch),
        )
        crash_point("queries.outputs-appended")
        metrics = bucket_metrics(found, METRIC_NAMES)
        totals = {count: sum(row[count] for row in metrics) for count in self.counts}
        source.record_metrics(totals["rows"], totals["pairs"])
        self.append_metrics(metrics or [{"bucket": -1, **dict.fromkeys(METRIC_NAMES)}], batch)
        return totals

    def shown(self, pairs: DataFrame, found: str) -> DataFrame:
        """Return pairs as their table has them, but for the number of what found them."""
        own = [F.col(f"o_{output.name}").alias(output.name) for output in self.query.outputs]
        return pairs.select(*PAIR_COLUMNS, F.lit(found).alias("found"), *own)


def newest(layout: Home, query: str, batch: int) -> Newest:
    """Return the newest time believed of each side in the batches before this one."""
    columns, before = ("left_newest_us", "right_newest_us"), ("batch", 1, batch - 1)
    (_, left), (_, right) = bounds(layout.queries(query), columns, before)
    return left, right


run_of = PairsRun.of

"""A batch of a sample: its rows, then the metrics that finish it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import functions as F

from lakehouse.home.crashpoint import crash_point
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.run import QueryRun
from lakehouse.queries.runtime.source import RowSource
from lakehouse.spark import tables
from tests.queries.toy_kind.query import SampleQuery


@dataclass(frozen=True)
class SampleRun(QueryRun[SampleQuery]):
    """A registered sample, and where it runs."""

    counts = ("rows", "selected")

    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, int]:
        """Append the rows, then the metrics; return the totals."""
        query, table = self.query, self.layout.selection(self.query.name)
        raw, row = source.rows(0), F.xxhash64("source_file", "source_line", "source_item")
        shown = [F.col(output.column).alias(output.name) for output in query.outputs]
        sampled = raw.where(F.pmod(row, F.lit(query.one_in)) == 0)
        self.append(sampled.select("event_us", row.alias("row_id"), *shown), table, "online", manifest.number)
        crash_point("queries.outputs-appended")
        rows, time_us = raw.agg(F.count("*"), F.max("event_us")).first() or (0, None)
        totals = {
            "rows": rows,
            "selected": tables.read(self.spark, table).where(f"batch = {manifest.number}").count(),
        }
        self.append_metrics([{"operator": -1, **totals, "time_us": time_us}], manifest.number)
        return totals


run_of = SampleRun.of

"""A batch of a sample: its rows, then the metrics that finish it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import functions as F

from lakehouse.home.crashpoint import crash_point
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.run import QueryRun
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tables import ROW_HASH
from lakehouse.spark import tables
from tests.queries.toy_kind.query import SampleQuery


@dataclass(frozen=True)
class SampleRun(QueryRun[SampleQuery]):
    """A registered sample, and where it runs."""

    counts = ("rows", "selected")

    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, int]:
        """Append the rows, then the metrics; return the totals."""
        query, table = self.query, self.layout.selection(self.query.name)
        shown = [f"`{output.column}` AS `{output.name}`" for output in query.outputs]
        raw = source.select(0, ("event_us", f"{ROW_HASH} AS row_id", *shown))
        sampled = raw.where(F.pmod("row_id", F.lit(query.one_in)) == 0)
        self.append(sampled, table, "online", manifest.number)
        crash_point("queries.outputs-appended")
        rows, time_us = raw.agg(F.count("*"), F.max("event_us")).first() or (0, None)
        totals = {
            "rows": rows,
            "selected": tables.read(self.spark, table).where(f"batch = {manifest.number}").count(),
        }
        self.append_metrics([{"operator": -1, **totals, "time_us": time_us}], manifest.number)
        return totals


run_of = SampleRun.of

"""A batch of a join of three streams or more: rows to their windows, counts to the centre, blocks on their ways.

    batch_manifests/<query>/batch-N     which ingest batches of each stream batch N takes; written first
        counts of their raw rows -> centre      what can join, and on which way
        every row                -> windows     at its own site, in order of its slot; beside it state N
        rows that can join       -> joins       along their ways; late: rows that may have missed partners
        queries N                               figures per side; written last: the batch is finished

Counts and blocks are the centre's; what rows join is found on their ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.declare.stream import Stream
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.home.table_log import read_columns
from lakehouse.queries.multiway.centre import Block, Planner, counted, taken
from lakehouse.queries.multiway.query import SLOTS, MultiwayQuery
from lakehouse.queries.multiway.route import MOST_SENT, Route, Windows, execute_route
from lakehouse.queries.multiway.rows import is_used, kind_of_row, raw_rows
from lakehouse.queries.multiway.shuffle_metrics import Meter
from lakehouse.queries.multiway.sites import Costs, transfer_of
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.progress import Progress, progress, progress_before
from lakehouse.queries.runtime.run import QueryRun
from lakehouse.queries.runtime.source import RowSource
from lakehouse.spark import tables

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Float64s

TAKEN = ("rows", "missed", "refused", "unusable")
# Of rows that a column can hold; bounds of many streams may be beyond.
LARGEST = 2.0**62
_EXCLUDED = "spark.sql.adaptive.optimizer.excludedRules"
_EMPTY = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"


@dataclass(frozen=True)
class MultiwayRun(QueryRun[MultiwayQuery]):
    """A registered join of three streams or more, and where it runs; ``costs`` are those of ways between sites."""

    counts = (*TAKEN, "results")
    costs: Costs = field(default_factory=dict)
    slots: int = SLOTS
    most_sent: int = MOST_SENT

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        layout: Home,
        query: MultiwayQuery,
        streams: Mapping[str, Stream],
        buckets: int,
        sites: Costs,
    ) -> Self:
        """Return a query and where it runs; its rows are in slots, so the number of buckets says nothing."""
        return cls(spark, layout, query, streams, costs=sites)

    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, Any]:
        """Append all that a batch comes to, its metrics last; return its totals."""
        return _Batch(self, manifest, source).finish()

    def horizon_us(self, before: Progress) -> int | None:
        """Return up to when rows are late for a batch, given how far those before it have come; None for never."""
        return None if before.until_us is None else before.until_us - self.query.slack_us


@dataclass(frozen=True)
class _Batch:
    run: MultiwayRun
    manifest: BatchManifest
    source: RowSource

    def finish(self) -> dict[str, int]:
        """Append rows, state, results and log, then the figures that say so; return these."""
        run, query = self.run, self.run.query
        meter = Meter(run.spark)
        before = progress_before(run.layout, query, self.manifest.number)
        after = progress(run.spark, run.layout, query, self.manifest, before)
        rows = raw_rows(self.source, query, run.streams, run.slots).persist()
        try:
            counts = counted(rows, query, run.horizon_us(before), run.horizon_us(after))
            crash_point("queries.counted")
            planner = self._planner()
            blocks = planner.plan(counts, run.horizon_us(before))
            kinds, state = taken(counts, len(query.sides)), planner.state()
            routes = self._write(rows, blocks, state, kinds, before)
        finally:
            rows.unpersist()
        moved = {route.block.side: route.moved() for route in routes}
        figures = [
            self._figures(planner, block, moved.get(block.side, np.zeros(1)), kinds[block.side])
            for block in blocks
        ]
        sent, filters = meter.read(), sum(route.filter_bytes for route in routes)
        whole = {"results": round(sum(sizes[-1] for sizes in moved.values()))}
        whole |= {"shuffled": sent.shuffled, "collected": sent.collected + filters}
        whole |= {"bytes": sum(map(len, state.values()))}
        totals = {name: sum(each[name] for each in figures) for name in TAKEN} | whole
        self.source.record_metrics(totals["rows"], totals["results"])
        times = {"time_us": after.until_us, "newest_us": list(after.newest_us)}
        run.append_metrics([*figures, {"side": -1, **whole}], self.manifest.number, **times)
        return totals

    def _write(
        self,
        rows: DataFrame,
        blocks: Sequence[Block],
        state: Mapping[str, bytes],
        kinds: Sequence[Mapping[str, int]],
        before: Progress,
    ) -> list[Route]:
        """Append the new rows to their windows, the state, the results and the log; return the blocks' ways."""
        routes: list[Route] = []
        is_logged = any(kind["missed"] or kind["refused"] for kind in kinds)
        tables.side_by_side(
            lambda: self._append_windows(rows),
            lambda: self._append_state(state),
            lambda: routes.extend(self._move(rows, blocks, before)),
            *([lambda: self._log(rows, before)] if is_logged else []),
        )
        crash_point("queries.outputs-appended")
        return routes

    def _append_windows(self, rows: DataFrame) -> None:
        kept = rows.where(is_used()).drop("is_refused", "batch").sortWithinPartitions("side", "slot")
        self.run.append(kept, self.run.layout.windows(self.run.query.name), "online", self.manifest.number)
        crash_point("queries.windows-appended")

    def _planner(self) -> Planner:
        """Return the centre as the batch before left it."""
        run, query = self.run, self.run.query
        states = read_columns(
            run.layout.states(query.name),
            ("part", "content"),
            ("batch", self.manifest.number - 1, self.manifest.number - 1),
        )
        return Planner(query, transfer_of(query, run.streams, run.costs), run.slots, dict(states))

    def _append_state(self, state: Mapping[str, bytes]) -> None:
        run, number, name = self.run, self.manifest.number, self.run.query.name
        parts = [
            {"bucket": 0, "part": part, "content": content, "batch": number}
            for part, content in state.items()
        ]
        tables.append_rows(run.spark, parts, run.layout.states(name), f"query-{name}", number)
        crash_point("queries.state-appended")

    def _move(self, rows: DataFrame, blocks: Sequence[Block], before: Progress) -> list[Route]:
        """Append the results of all blocks of which something can join."""
        run, query, number = self.run, self.run.query, self.manifest.number
        horizon = run.horizon_us(before)
        since = [None if horizon is None else horizon - side.window_us for side in query.sides]
        stored = tables.read(run.spark, run.layout.windows(query.name)).where(F.col("batch") < number)
        windows = Windows(run.spark, query, stored, rows.where(is_used()), since)
        routes = _routes(windows, blocks, run.most_sent)
        if routes:
            with _nothing_left_out(run.spark):
                if not run.append(_results(routes), run.layout.multiway(query.name), "online", number):
                    # They were appended before the batch died: only what moves is counted once more.
                    routes = _routes(windows, blocks, run.most_sent)
                    _results(routes).write.format("noop").mode("overwrite").save()
        return routes

    def _log(self, rows: DataFrame, before: Progress) -> None:
        """Append rows that came late, and rows that are refused, to the log."""
        run, horizon = self.run, self.run.horizon_us(before)
        kind = kind_of_row(horizon)
        horizon_us = F.when(kind == "missed", F.lit(horizon)).cast("bigint")
        time_us = F.lit(before.until_us).cast("bigint")
        logged = rows.where(kind.isin("missed", "refused")).select(
            kind.alias("what"),
            F.lit(0).alias("bucket"),
            *("side", "row", "event_us"),
            horizon_us.alias("horizon_us"),
            time_us.alias("time_us"),
        )
        run.append(logged, run.layout.missed_rows(run.query.name), "online", self.manifest.number)

    def _figures(
        self, planner: Planner, block: Block, moved: Float64s, kinds: Mapping[str, int]
    ) -> dict[str, Any]:
        """Return what became of a block: its rows by kind, how they were to move and have moved."""
        return {
            "side": block.side,
            **{name: kinds[name] for name in TAKEN},
            "visits": list(block.visits),
            "planned": np.ceil(block.plan.sizes).clip(max=LARGEST).astype(np.int64).tolist(),
            "moved": moved.astype(np.int64).tolist(),
            "planned_cost": round(block.plan.cost.total, 3),
            "real_cost": round(planner.centre.cost_of(block.plan, moved).total, 3),
            "held": block.held,
        }


def _routes(windows: Windows, blocks: Sequence[Block], most_sent: int) -> list[Route]:
    """Return the ways of the blocks of which something can join."""
    return [execute_route(windows, block, most_sent) for block in blocks if block.visits]


def _results(routes: Sequence[Route]) -> DataFrame:
    return reduce(DataFrame.unionByName, [route.results for route in routes])


@contextmanager
def _nothing_left_out(spark: SparkSession) -> Iterator[None]:
    """Keep in the plan, and so in its figures, also what has met an empty side."""
    before = spark.conf.get(_EXCLUDED, None)
    spark.conf.set(_EXCLUDED, ",".join(filter(None, (before, _EMPTY))))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_EXCLUDED)
        else:
            spark.conf.set(_EXCLUDED, before)


run_of = MultiwayRun.of

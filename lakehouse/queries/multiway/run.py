"""A batch of a join of three streams or more, joined as it is or pruned by counts of its keys.

    batch_manifests/<query>/batch-N     which ingest batches of each stream batch N takes; written first
    plain:   rows of the batch and of its windows, from raw -> results
    pruned:  every row                -> windows     at its own site, in order of its slot
             counts of their keys     -> centre      what can join, and on which way; beside it state N
             rows that can join       -> results     along their ways
    log                                 rows that may have missed partners, either way
    queries N                           figures per side; written last: the batch is finished

Which way costs less is told by what is known before (``choice.py``); the results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lakehouse.declare.stream import Stream
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.home.table_log import bounds, read_columns
from lakehouse.queries.multiway.centre import Block, Planner, counted
from lakehouse.queries.multiway.choice import PLAIN, PRUNED, choice_of, oldest_us
from lakehouse.queries.multiway.plain import RESULT, PlainJoin
from lakehouse.queries.multiway.query import MOST_SLOTS, MultiwayQuery
from lakehouse.queries.multiway.route import MOST_SENT, Route, execute_route, plain_results
from lakehouse.queries.multiway.rows import is_used, kind_of_row, raw_rows
from lakehouse.queries.multiway.shuffle_metrics import Meter, Moved
from lakehouse.queries.multiway.sites import Costs, transfer_of
from lakehouse.queries.multiway.windows import TAKEN, Windows
from lakehouse.queries.runtime.batch import taken_in
from lakehouse.queries.runtime.batch_manifest import BatchManifest, Wanted, require_manifest
from lakehouse.queries.runtime.progress import Progress, progress, progress_before
from lakehouse.queries.runtime.run import QueryRun
from lakehouse.queries.runtime.source import FromRaw, RowSource
from lakehouse.spark import tables

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Float64s

# Of rows that a column can hold; bounds of many streams may be beyond.
LARGEST = 2.0**62
_EXCLUDED = "spark.sql.adaptive.optimizer.excludedRules"
_EMPTY = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"


@dataclass(frozen=True)
class MultiwayRun(QueryRun[MultiwayQuery]):
    """A registered join of three streams or more, and where it runs.

    ``costs``: those of ways between sites. ``slots``: how many there are at most. ``joins``: how every batch is joined,
    plain or pruned; as it costs less if empty.
    """

    counts = (*TAKEN, "results")
    metrics_table = "multiway_batches"
    costs: Costs = field(default_factory=dict)
    slots: int = MOST_SLOTS
    most_sent: int = MOST_SENT
    joins: str = ""

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        layout: Home,
        query: MultiwayQuery,
        streams: Mapping[str, Stream],
        wanted: Wanted,
        sites: Costs,
    ) -> Self:
        """Return a query and where it runs; its rows are in slots, so the number of buckets says nothing."""
        return cls(spark, layout, query, streams, costs=sites)

    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, Any]:
        """Append all that a batch comes to, its metrics last; return its totals."""
        return _Batch(self, manifest, source).finish()

    @property
    def keeps_windows(self) -> bool:
        """Whether rows are kept in windows whichever way a batch is joined.

        They are where raw forgets rows, and where a predicate of the operator's own would be asked again of each row.
        """
        forgets = any(self.streams[name].keep_raw is not None for name in self.query.streams)
        return forgets or any(side.conjuncts for side in self.query.sides)

    def horizon_us(self, before: Progress) -> int | None:
        """Return up to when rows are late for a batch, given how far those before it have come; None for never."""
        return None if before.until_us is None else before.until_us - self.query.slack_us


@dataclass(frozen=True)
class _Joined:
    """What joining a batch came to: its results, the state to write, and per side what moved on which way."""

    results: int
    state: Mapping[str, bytes]
    sides: Sequence[Mapping[str, Any]]
    filter_bytes: int = 0


@dataclass(frozen=True)
class _Batch:
    run: MultiwayRun
    manifest: BatchManifest
    source: RowSource

    def finish(self) -> dict[str, int]:
        """Append rows, results, log and state, then the figures that say so; return these."""
        run, query, number = self.run, self.run.query, self.manifest.number
        before = progress_before(run.layout, query, number)
        after = progress(run.layout, query, self.manifest, before)
        transfer = transfer_of(query, run.streams, run.costs)
        choice = choice_of(run.layout, query, self.manifest, transfer, run.keeps_windows)
        way = run.joins or (PRUNED if choice.is_pruned else PLAIN)
        joined, sent = self._joined(way, before, after)
        crash_point("queries.outputs-appended")
        whole = {"results": joined.results, "shuffled": sent.shuffled}
        whole |= {"collected": sent.collected + joined.filter_bytes}
        whole |= {"bytes": sum(map(len, joined.state.values()))}
        totals = {name: sum(side[name] for side in joined.sides) for name in TAKEN} | whole
        self.source.record_metrics(totals["rows"], totals["results"])
        figures = [{"side": number, **side} for number, side in enumerate(joined.sides)]
        told = {"side": -1, **whole, "joined": way, "why": choice.why, "lost_s": choice.lost}
        times = {"time_us": after.until_us, "newest_us": list(after.newest_us)}
        run.append_metrics([*figures, told], number, **times)
        return totals

    def _joined(self, way: str, before: Progress, after: Progress) -> tuple[_Joined, Moved]:
        """Join the batch; return what it comes to, and what Spark has moved for it."""
        if way == PLAIN and not self.run.keeps_windows:
            return self._join_raw(before)
        meter = Meter(self.run.spark)
        joined = self._join_pruned(before, after) if way == PRUNED else self._join_windows(before)
        return joined, meter.read()

    def _join_raw(self, before: Progress) -> tuple[_Joined, Moved]:
        """Join the batch as raw has its rows, and log what came late or is refused."""
        run, number, name = self.run, self.manifest.number, self.run.query.name
        oldest, horizon = oldest_us(run.layout, run.query, self.manifest), run.horizon_us(before)
        since = self._since(horizon, oldest)
        times = since, oldest, horizon, before.until_us
        found = PlainJoin(run.spark, run.layout, run.query, run.streams, self.manifest, *times).answered()
        results, log = found.entries
        run.commit(results, run.layout.multiway(name), "online", number)
        run.commit(log, run.layout.missed_rows(name), "online", number)
        sums = [
            {key: sum(row[f"{key}_{side}"] for row in found.metrics) for key in (*TAKEN, "held")}
            for side in range(len(run.query.sides))
        ]
        kinds = [{key: own[key] for key in TAKEN} for own in sums]
        sides = _matched(kinds, [own["held"] for own in sums], found.counts[RESULT])
        return _Joined(found.counts[RESULT], {}, sides), Moved(sum(row["bytes"] for row in found.metrics), 0)

    def _join_windows(self, before: Progress) -> _Joined:
        """Join the batch as windows have its rows, which are kept whichever way it is joined."""
        oldest = oldest_us(self.run.layout, self.run.query, self.manifest)
        horizon = self.run.horizon_us(before)
        kinds = self._append_windows(horizon)
        windows = self._windows(self._since(horizon, oldest))
        results = self._append_plain(windows, self._logging(kinds, before))
        held = [windows.held(side) for side in range(len(self.run.query.sides))]
        return _Joined(results, {}, _matched(kinds, held, results))

    def _append_plain(self, rows: Windows, steps: Sequence[Callable[[], object]]) -> int:
        """Append the results of one join of all sides; return how many there are."""
        found, seen, number = plain_results(rows), Observation(), self.manifest.number
        results = self.run.layout.multiway(self.run.query.name)
        told = found.observe(seen, F.count(F.lit(1)).alias("rows"))

        def append() -> None:
            with _nothing_left_out(self.run.spark):
                if not self.run.append(told, results, "online", number):
                    # They were appended before the batch died: rows are only counted once more.
                    told.write.format("noop").mode("overwrite").save()

        tables.side_by_side(append, *steps)
        return int(seen.get.get("rows", 0))

    def _append_windows(self, horizon_us: int | None) -> list[dict[str, int]]:
        """Append new rows to their windows; return per side how many rows there are, and of which kind.

        Rows of batches before that were joined without windows are appended too.
        """
        run = self.run
        rows = raw_rows(self.source, run.query, run.streams, run.slots)
        seen, kind = Observation(), kind_of_row(horizon_us)
        sides, number = range(len(run.query.sides)), self.manifest.number
        kinds = {name: kind == name for name in TAKEN} | {"rows": F.lit(True)}
        counts = [
            F.count_if((F.col("side") == side) & is_so).alias(f"{name}_{side}")
            for side in sides
            for name, is_so in kinds.items()
        ]
        told = rows.observe(seen, *counts).withColumn("batch", F.lit(number).cast("bigint"))
        for earlier in self._unkept(horizon_us):
            told = told.unionByName(earlier)
        kept = told.where(is_used()).drop("is_refused").sortWithinPartitions("side", "slot")
        table, writer = run.layout.windows(run.query.name), f"query-{run.query.name}"
        if tables.append_once(kept, table, writer, number) is None:
            # They were appended before the batch died.
            found = rows.agg(*counts).collect()[0].asDict()
        else:
            found = dict(seen.get)
        crash_point("queries.windows-appended")
        return [{name: found.get(f"{name}_{side}", 0) for name in TAKEN} for side in sides]

    def _unkept(self, horizon_us: int | None) -> Iterator[DataFrame]:
        """Yield the rows of earlier batches that are in their windows, and that the table does not have yet."""
        run, number = self.run, self.manifest.number
        since = self._since(horizon_us, None)
        [(_, last)] = bounds(run.layout.windows(run.query.name), ("batch",))
        folder = run.layout.batch_manifests(run.query.name)
        missing = [require_manifest(folder, "batch", each) for each in range((last or 0) + 1, number)]
        if not missing:
            return

        def around(raw: DataFrame, side: int) -> DataFrame:
            since_us = since[side]
            return raw if since_us is None else raw.where(F.col("event_us") >= since_us)

        ends = zip(missing[0].spans, missing[-1].spans, strict=True)
        spans = [(first, through) for (first, _), (_, through) in ends]
        source = FromRaw(run.spark, run.layout, run.query, spans, around)
        rows = raw_rows(source, run.query, run.streams, run.slots)
        yield rows.withColumn("batch", taken_in(missing))

    def _since(self, horizon_us: int | None, oldest_us: int | None) -> list[int | None]:
        """Return per side from when on rows are in their windows, and can meet a row from ``oldest_us`` on."""
        known = [each for each in (horizon_us, oldest_us) if each is not None]
        return [max(known) - side.window_us if known else None for side in self.run.query.sides]

    def _windows(self, since_us: Sequence[int | None]) -> Windows:
        run = self.run
        return Windows.of(
            run.spark, run.query, run.layout.windows(run.query.name), self.manifest.number, since_us
        )

    def _logging(self, kinds: Sequence[Mapping[str, int]], before: Progress) -> list[Callable[[], object]]:
        is_logged = any(kind["missed"] or kind["refused"] for kind in kinds)
        return [lambda: self._log(before)] if is_logged else []

    def _join_pruned(self, before: Progress, after: Progress) -> _Joined:
        """Count the batch's keys, and send what can join on its ways."""
        run, sides = self.run, range(len(self.run.query.sides))
        at_us, next_us = run.horizon_us(before), run.horizon_us(after)
        kinds = self._append_windows(at_us)
        windows, planner = self._windows(self._since(at_us, None)), self._planner()
        if self.manifest.number > 1 and not planner.knows_windows:
            stored = reduce(DataFrame.unionByName, [windows.stored(side) for side in sides])
            planner.remember(counted(stored, run.query, run.slots, next_us), at_us)
        new = reduce(DataFrame.unionByName, [windows.new(side) for side in sides])
        counts = counted(new, run.query, run.slots, next_us)
        crash_point("queries.counted")
        blocks, routes = planner.plan(counts, at_us), list[Route]()
        state = planner.state()
        tables.side_by_side(
            lambda: self._append_state(state),
            lambda: routes.extend(self._move(windows, blocks)),
            *self._logging(kinds, before),
        )
        moved = {route.block.side: route.moved() for route in routes}
        figures = [
            {**kind, **self._moves(planner, block, moved.get(block.side, np.zeros(1)))}
            for kind, block in zip(kinds, blocks, strict=True)
        ]
        results = round(sum(sizes[-1] for sizes in moved.values()))
        return _Joined(results, state, figures, sum(route.filter_bytes for route in routes))

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
        tables.append_rows(parts, run.layout.states(name), f"query-{name}", number)
        crash_point("queries.state-appended")

    def _move(self, windows: Windows, blocks: Sequence[Block]) -> list[Route]:
        """Append the results of all blocks of which something can join."""
        run = self.run
        routes = _routes(windows, blocks, run)
        if routes:
            with _nothing_left_out(run.spark):
                results = run.layout.multiway(run.query.name)
                if not run.append(_results(routes), results, "online", self.manifest.number):
                    # They were appended before the batch died: only what moves is counted once more.
                    routes = _routes(windows, blocks, run)
                    _results(routes).write.format("noop").mode("overwrite").save()
        return routes

    def _log(self, before: Progress) -> None:
        """Append rows that came late, and rows that are refused, to the log."""
        run, horizon = self.run, self.run.horizon_us(before)
        rows, kind = raw_rows(self.source, run.query, run.streams, run.slots), kind_of_row(horizon)
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

    def _moves(self, planner: Planner, block: Block, moved: Float64s) -> dict[str, Any]:
        """Return what became of a block: how its rows were to move and have moved."""
        return {
            "visits": list(block.visits),
            "planned": np.ceil(block.plan.sizes).clip(max=LARGEST).astype(np.int64).tolist(),
            "moved": moved.astype(np.int64).tolist(),
            "planned_cost": round(block.plan.cost.total, 3),
            "real_cost": round(planner.centre.cost_of(block.plan, moved).total, 3),
            "matching": block.leaving / max(block.rows, 1),
            "held": block.held,
        }


def _matched(kinds: Sequence[Mapping[str, int]], held: Sequence[int], results: int) -> list[dict[str, Any]]:
    """Return the figures of each side: no more rows can have matched than there are results."""
    return [
        {**kind, "held": held[side], "matching": min(results / max(kind["rows"], 1), 1.0)}
        for side, kind in enumerate(kinds)
    ]


def _routes(windows: Windows, blocks: Sequence[Block], run: MultiwayRun) -> list[Route]:
    """Return the ways of the blocks of which something can join."""
    return [execute_route(windows, block, run.slots, run.most_sent) for block in blocks if block.visits]


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

"""A batch of a join of three streams or more, joined as it is or pruned by counts of its keys.

    manifest of batch N                 which ingest batches of each stream batch N takes; written first
    plain:   rows of the batch and of its windows, from raw -> results
    pruned:  every row                -> windows     at its own site, in order of its slot
             counts of their keys     -> centre      what can join, and on which way; beside it state N
             rows that can join       -> results     along their ways
    log                                 rows that may have missed partners, either way
    queries N                           figures per side; written last: the batch is finished

Which way costs less is told by what is known before (``choice.py``); the results are the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from lakehouse.algorithms.multiway_join.contract import Float64s
from lakehouse.config.stream import Stream
from lakehouse.engine import Engine
from lakehouse.engine.parts import sink_of
from lakehouse.queries.multiway.centre import Block, Planner
from lakehouse.queries.multiway.choice import PLAIN, PRUNED, choice_of, oldest_us
from lakehouse.queries.multiway.places import RESULT, Route, whole_routes
from lakehouse.queries.multiway.plain import PlainJoin
from lakehouse.queries.multiway.pruned import join_windows, moved
from lakehouse.queries.multiway.query import MOST_SLOTS, MultiwayQuery
from lakehouse.queries.multiway.reach import Reach, chosen
from lakehouse.queries.multiway.rows import TAKEN, side_columns
from lakehouse.queries.multiway.sites import Costs, transfer_of
from lakehouse.queries.multiway.windows import Appended, Appending, Windows
from lakehouse.queries.runtime.batch_manifest import BatchManifest, Wanted, require_manifests
from lakehouse.queries.runtime.logged import TakenRows
from lakehouse.queries.runtime.progress import Progress, progress, progress_before
from lakehouse.queries.runtime.recall.needed_slack import POLICY, Parts, learned
from lakehouse.queries.runtime.retracted import Retracted, RetractedRows
from lakehouse.queries.runtime.run import QueryRun
from lakehouse.queries.runtime.source import FromRaw, RowSource
from lakehouse.queries.runtime.tasks.by_bucket import Answered, joined_figures
from lakehouse.queries.runtime.tasks.reading import SideRows
from lakehouse.spark import tables
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import bounds, read_columns

# Of rows that a column can hold; bounds of many streams may be beyond.
LARGEST = 2.0**62
_NEVER = 2**62


@dataclass(frozen=True)
class MultiwayRun(QueryRun[MultiwayQuery]):
    """A registered join of three streams or more, and where it runs.

    ``costs``: those of ways between sites. ``slots``: how many there are at most. ``joins``: how every batch is joined,
    plain or pruned; as it costs less if empty.
    """

    counts = (*TAKEN, "results")
    costs: Costs = field(default_factory=dict)
    slots: int = MOST_SLOTS
    joins: str = ""

    @classmethod
    def of(
        cls,
        engine: Engine,
        layout: Home,
        query: MultiwayQuery,
        streams: Mapping[str, Stream],
        wanted: Wanted,
        sites: Costs,
    ) -> Self:
        """Return a query and where it runs; its rows are in slots, so the number of buckets says nothing."""
        return cls(engine, layout, query, streams, costs=sites)

    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, Any]:
        """Append all that a batch comes to, its metrics last; return its totals."""
        return _Batch(self, manifest, source).finish()

    @property
    def keeps_windows(self) -> bool:
        """True if rows are kept in windows whichever way a batch is joined.

        They are where raw forgets rows, and where a predicate of the operator's own would be asked again of each row.
        """
        forgets = any(self.streams[name].keep_raw is not None for name in self.query.streams)
        return forgets or any(side.conjuncts for side in self.query.sides)

    def forget(self, retracted: Retracted, manifest: BatchManifest) -> None:
        """Take retracted rows out of their windows; counts of the centre may be too high, and pass a row more."""
        between = "event_us", retracted.from_us, retracted.to_us - 1
        self.remove(self.layout.windows(self.query.name), RetractedRows(retracted), between, manifest)
        crash_point("withdrawal.state-replaced")


@dataclass(frozen=True)
class _Joined:
    """Results of a batch, the state to write, per side what moved on which way, and the figures of its log.

    ``shuffled``: bytes of rows that met by key; ``filter_bytes``: those of the slots that tasks were sent. ``needed``,
    ``lags``: counts by stream and bin of slack, in parts, of results by what they needed and of rows by how late they
    came.
    """

    results: int
    state: Mapping[str, bytes]
    sides: Sequence[Mapping[str, Any]]
    logged: Mapping[str, Any]
    shuffled: int
    filter_bytes: int = 0
    needed: Parts = ()
    lags: Parts = ()


@dataclass(frozen=True)
class _Batch:
    run: MultiwayRun
    manifest: BatchManifest
    source: RowSource

    def finish(self) -> dict[str, int]:
        """Append rows, results, log and state, then the figures that say so; return these."""
        run, query, number = self.run, self.run.query, self.manifest.number
        before = progress_before(run.layout, query, number)
        after = progress(run.engine, run.layout, query, self.manifest, before)
        transfer = transfer_of(query, run.streams, run.costs)
        choice = choice_of(run.layout, query, self.manifest, transfer, run.keeps_windows)
        way = run.joins or (PRUNED if choice.is_pruned else PLAIN)
        reach, policy = chosen(run.layout, query, self.manifest, before.until_us, self._before)
        joined = self._joined(way, reach, after)
        state = dict(joined.state)
        if policy is not None:
            state[POLICY] = learned(policy, reach.time_us, reach.slack_us, joined.needed, joined.lags)
        if state:
            self._append_state(state)
        crash_point("queries.outputs-appended")
        whole = {"results": joined.results, "shuffled": joined.shuffled, "collected": joined.filter_bytes}
        whole |= {"bytes": sum(map(len, state.values()))}
        totals = {name: sum(side[name] for side in joined.sides) for name in TAKEN} | whole
        self.source.record_metrics(totals["rows"], totals["results"])
        figures = [
            {"side": number, "slack_us": slack_us, **side}
            for number, (slack_us, side) in enumerate(zip(reach.slack_us, joined.sides, strict=True))
        ]
        told = {"side": -1, **whole, **joined.logged, "joined": way, "why": choice.why, "lost_s": choice.lost}
        times = {"time_us": after.until_us, "newest_us": list(after.newest_us)}
        run.append_metrics([*figures, told], number, **times)
        return totals

    @cached_property
    def _before(self) -> dict[str, bytes]:
        """The state that the batch before has left."""
        last = ("batch", self.manifest.number - 1, self.manifest.number - 1)
        return dict(read_columns(self.run.layout.states(self.run.query.name), ("part", "content"), last))

    def _joined(self, way: str, reach: Reach, after: Progress) -> _Joined:
        """Join the batch; return what it comes to."""
        if way == PLAIN and not self.run.keeps_windows:
            return self._join_raw(reach)
        return self._join_pruned(reach, after) if way == PRUNED else self._join_windows(reach, after)

    def _join_raw(self, reach: Reach) -> _Joined:
        """Join the batch as raw has its rows, and log what came late or is refused."""
        run, number, name = self.run, self.manifest.number, self.run.query.name
        oldest = oldest_us(run.layout, run.query, self.manifest)
        own = run.engine, run.layout, run.query, run.streams
        found = PlainJoin(*own, self.manifest, reach, oldest).answered()
        results, log = found.entries
        run.commit(results, run.layout.multiway(name), "online", number)
        run.commit(log, run.layout.missed_rows(name), "online", number)
        sums = [
            {key: sum(row[f"{key}_{side}"] for row in found.metrics) for key in (*TAKEN, "held")}
            for side in range(len(run.query.sides))
        ]
        kinds = [{key: own[key] for key in TAKEN} for own in sums]
        sides = _matched(kinds, [own["held"] for own in sums], found.counts[RESULT])
        lags = [row["lags"] for row in found.metrics]
        return self._unpruned(found, sides, joined_figures(found.metrics), lags)

    def _join_windows(self, reach: Reach, after: Progress) -> _Joined:
        """Join the batch as windows have its rows, which are kept whichever way it is joined."""
        run, oldest = self.run, oldest_us(self.run.layout, self.run.query, self.manifest)
        appended = self._append_windows(reach, after)
        windows = self._windows(reach, oldest)
        found = self._join(windows, whole_routes(len(run.query.sides)))
        held = [windows.held(side) for side in range(len(run.query.sides))]
        sides = _matched(appended.kinds, held, found.counts[RESULT])
        return self._unpruned(found, sides, appended.logged, appended.lags)

    def _unpruned(
        self,
        found: Answered,
        sides: Sequence[Mapping[str, Any]],
        logged: Mapping[str, Any],
        lags: Parts,
    ) -> _Joined:
        needed = _needed(found)
        return _Joined(found.counts[RESULT], {}, sides, logged, _bytes(found), needed=needed, lags=lags)

    def _join(self, windows: Windows, routes: Sequence[Route]) -> Answered:
        """Append the results of some blocks."""
        run, results = self.run, self.run.layout.multiway(self.run.query.name)
        found = join_windows(run.engine, windows, results, routes, run.slots)
        run.commit(found.entries[0], results, "online", self.manifest.number)
        return found

    def _append_windows(self, reach: Reach, after: Progress, stored: Sequence[SideRows] = ()) -> Appended:
        """Append new rows to their windows, and late and refused ones to the log.

        Rows of batches before that were joined without windows are appended too. ``stored``: rows to be counted.
        """
        run, query, number = self.run, self.run.query, self.manifest.number
        layout, next_us = run.layout, reach.at_us
        if query.recall is None and after.until_us is not None:
            next_us = after.until_us - query.slack_us
        columns = [side_columns(query, run.streams, side) for side in range(len(query.sides))]
        how = Appending(
            query,
            sink_of(layout.windows(query.name)),
            sink_of(layout.missed_rows(query.name)),
            number,
            run.slots,
            reach,
            next_us,
        )
        new = [self.source.read(side, own) for side, own in enumerate(columns)]
        appended = how.run(run.engine, new, self._unkept(reach, columns), stored)
        run.commit(appended.windows, layout.windows(query.name), "online", number)
        crash_point("queries.windows-appended")
        run.commit(appended.log, layout.missed_rows(query.name), "online", number)
        return appended

    def _unkept(self, reach: Reach, columns: Sequence[Sequence[str]]) -> list[SideRows]:
        """Return the rows of earlier batches that are in their windows, and that the table does not have yet."""
        run, number = self.run, self.manifest.number
        [(_, last)] = bounds(run.layout.windows(run.query.name), ("batch",))
        folder = run.layout.batch_manifests(run.query.name)
        missing = require_manifests(folder, "batch", last or 0, number - 1)
        if not missing:
            return []
        ends = zip(missing[0].spans, missing[-1].spans, strict=True)
        spans = [(first, through) for (first, _), (_, through) in ends]
        found = []
        for side, since_us in enumerate(reach.since_us()):
            ranges = None if since_us is None else [(since_us, _NEVER)]
            source = FromRaw(run.layout, run.query, spans, ranges)
            rows = source.read(side, columns[side])
            found.append(SideRows(rows.files, TakenRows.of(rows.rows, side, missing)))
        return found

    def _windows(self, reach: Reach, oldest: int | None = None) -> Windows:
        table = self.run.layout.windows(self.run.query.name)
        return Windows.of(reach, table, self.manifest.number, reach.since_us(oldest))

    def _join_pruned(self, reach: Reach, after: Progress) -> _Joined:
        """Count the batch's keys, and join what can join."""
        at_us, planner = reach.at_us, self._planner()
        is_known = planner.knows_windows or self.manifest.number == 1
        appended = self._append_windows(reach, after, () if is_known else self._windows(reach).stored())
        windows = self._windows(reach)
        if not is_known:
            planner.remember(appended.earlier, at_us)
        crash_point("queries.counted")
        blocks = planner.plan(appended.counts, at_us)
        # Where nothing of a block can join, it stays at home.
        routes = {block.side: Route.of(block) for block in blocks if block.visits}
        found = self._join(windows, list(routes.values())) if routes else None
        sizes = {side: moved(found, route) for side, route in routes.items() if found}
        figures = [
            {**kind, **self._moves(planner, block, sizes.get(block.side, np.zeros(1)))}
            for kind, block in zip(appended.kinds, blocks, strict=True)
        ]
        results = round(sum(own[-1] for own in sizes.values()))
        sent = sum(4 * len(block.slots) for block in blocks if block.visits)
        learned = (_needed(found) if found else ()), appended.lags
        size = _bytes(found) if found else 0
        return _Joined(results, planner.state(), figures, appended.logged, size, sent, *learned)

    def _planner(self) -> Planner:
        """Return the centre as the batch before left it."""
        run, query = self.run, self.run.query
        counts = {part: content for part, content in self._before.items() if part != POLICY}
        return Planner(query, transfer_of(query, run.streams, run.costs), run.slots, counts)

    def _append_state(self, state: Mapping[str, bytes]) -> None:
        run, number, name = self.run, self.manifest.number, self.run.query.name
        parts = [
            {"bucket": 0, "part": part, "content": content, "batch": number}
            for part, content in state.items()
        ]
        tables.append_rows(parts, run.layout.states(name), f"query-{name}", number)
        crash_point("queries.state-appended")

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


def _needed(found: Answered) -> Parts:
    return [row["needed"] for row in found.metrics]


def _bytes(found: Answered) -> int:
    """Return how many bytes of rows have met by key."""
    return int(sum(row["bytes"] for row in found.metrics))


run_of = MultiwayRun.of

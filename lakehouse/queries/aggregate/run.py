"""A batch of a join-aggregate: every bucket in one call, then state, log, answers, alarms, and last metrics.

Answers follow from the parts that buckets return: those of groups that several buckets have are combined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import Shape
from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.engine.parts import ENTRIES, TableSink, commit_entries, sink_of
from lakehouse.queries.aggregate.alarms import Changed
from lakehouse.queries.aggregate.bucket import PART, BucketAggregate
from lakehouse.queries.aggregate.query import AggregateQuery, shape_of
from lakehouse.queries.aggregate.recompute import Affected, BucketsAgain
from lakehouse.queries.aggregate.revise import Revision, Ticks
from lakehouse.queries.aggregate.rows import side_rows
from lakehouse.queries.aggregate.slack import TickSlack, passed_before, read_state, state_row
from lakehouse.queries.aggregate.tables import group_types, part_types
from lakehouse.queries.runtime.batch import MOST_ROWS
from lakehouse.queries.runtime.batch_manifest import (
    ONE,
    BatchManifest,
    Wanted,
    finished,
    require_manifest,
    require_manifests,
)
from lakehouse.queries.runtime.logged import TakenRows
from lakehouse.queries.runtime.progress import Clocks, Progress, clocks_of, progress_before
from lakehouse.queries.runtime.recall.needed_slack import learned
from lakehouse.queries.runtime.retracted import Retracted
from lakehouse.queries.runtime.run import QueryRun, kept_since
from lakehouse.queries.runtime.source import FromRaw, RowSource
from lakehouse.queries.runtime.tasks.bucket import LOG
from lakehouse.queries.runtime.tasks.by_bucket import Answered as Buckets
from lakehouse.queries.runtime.tasks.by_bucket import BatchKernel, Output, run_buckets
from lakehouse.queries.runtime.tasks.reading import SideRows
from lakehouse.spark import tables
from lakehouse.spark.ddl import schema_of
from lakehouse.storage.control.lease import files_of
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.tables.table_log import file_facts, files_near
from lakehouse.storage.tables.tables_place import place_at

_TAKEN = ("rows", "late", "missed", "refused", "unusable", "held", "bytes")
_LAGS = "lags"
_TICKS = ("first_us", "first_revised_us", "last_revised_us")
_APPENDED = {"online": "queries.outputs-appended", "repair": "repair.answers-appended"}


@dataclass(frozen=True)
class AggregateRun(QueryRun[AggregateQuery]):
    """A registered join-aggregate and where it runs."""

    counts = ("rows", "answered", "revised", "late", "missed", "refused", "unusable")

    @cached_property
    def shape(self) -> Shape:
        """Shape of the query for a method."""
        return shape_of(self.query)

    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, int]:
        """Append all that a batch comes to, its metrics last; return its totals."""
        layout, query, batch = self.layout, self.query, manifest.number
        before = progress_before(layout, query, batch)
        clocks, unread = clocks_of(layout, query, manifest, before)
        slack = TickSlack.chosen(layout, query, manifest, before)
        if slack is not None:
            clocks = replace(clocks, slack_us=slack.slack_us)
        came_us = None if slack is None else slack.time_us
        found = self._answered(manifest, source, clocks, unread, came_us)
        after = clocks.reached(found.shared)
        states, log, parts = found.entries
        crash_point("queries.joined")
        buckets, ticks = ticks_of(found.metrics)
        lags = [row.pop(_LAGS) for row in buckets]
        self.commit_states(states, batch)
        self.commit(log, layout.missed_rows(query.name), "online", batch)
        answered = self.answer(parts, ticks, self._changed(ticks, before, after), "online", batch)
        if slack is not None:
            times = slack.time_us, (slack.slack_us,)
            self._commit_policy(learned(slack.policy, *times, answered.needed, lags), batch)
        source.record_metrics(sum(row["rows"] for row in buckets), answered.new + answered.revised)
        given = {"answered": answered.new, "revised": answered.revised}
        when = {"time_us": after.until_us, "newest_us": list(after.newest_us)}
        self.append_metrics([*buckets, {"bucket": -1, **given}], batch, **when)
        return {name: sum(row[name] for row in buckets) for name in _TAKEN} | given

    def _commit_policy(self, state: bytes, batch: int) -> None:
        table, writer = self.layout.states(self.query.name), f"policy-{self.query.name}"
        tables.append_rows([state_row(state, batch)], table, writer, batch)
        crash_point("queries.state-appended")

    @property
    def cut(self) -> Wanted:
        """Number of buckets of a batch that is written down now: one where no column is common to all sides."""
        return self.wanted if self.query.bucketed_by else ONE

    def withdraw(self, retracted: Retracted, manifest: BatchManifest) -> tuple[int, int]:
        """Recompute the answers that rest on retracted rows, and make the state without these, from raw."""
        layout, query, number, through = self.layout, self.query, manifest.number, manifest.spans[0][1]
        last = require_manifest(layout.batch_manifests(query.name), "batch", through)
        until_us = self.time_us(through)
        last_us = None if until_us is None else floor_to(query.every_us, until_us)
        affected = Affected.of(query, retracted, last_us, kept_since(layout, query))
        parts, states = self._again(affected, last, until_us, number)
        answered = Answered(0, 0)
        if last_us is not None and affected.is_answered:
            first_us, whole = affected.ranges[0][0], affected.ranges
            ticks, changed = Ticks(first_us, first_us, whole[-1][1]), Changed(first_us, last_us)
            answered = self.answer(parts, ticks, changed, "repair", number, whole)
        if affected.alive_us is not None:
            self._replace_states(states, number)
        return answered.new + answered.revised, affected.gone

    def _again(
        self, affected: Affected, last: BatchManifest, until_us: int | None, number: int
    ) -> list[pa.Table]:
        """Write parts of the answers at affected ticks, and the state, from raw; return their entries.

        Memory: about as many rows as a batch has at most, at a time.
        """
        query, layout, spans = self.query, self.layout, [(0, end) for _, end in last.spans]
        times = [(first - affected.reach_us, last) for first, last in affected.ranges]
        files = [files_near(layout.raw(stream), "event_us", times) for stream in query.streams]
        pieces = 1 + sum(rows for own in files for _, rows in own) // MOST_ROWS
        outputs = self.parts_output(), self.states_output(last.number)
        taken, came_us = list[BatchManifest](), dict[int, int | None]()
        if query.recall is not None:
            taken = require_manifests(layout.batch_manifests(query.name), "batch", 0, last.number)
            came_us = passed_before(layout, query, 0, last.number)
        found = [[ENTRIES.empty_table()] for _ in outputs]
        for piece in affected.pieces(pieces, query.every_us):
            rows = side_rows(FromRaw(layout, query, spans, piece.reads), query, self.streams, last.buckets)
            if taken:
                rows = [
                    SideRows(own.files, TakenRows.of(own.rows, side, taken)) for side, own in enumerate(rows)
                ]
            own = query, self.shape, piece, until_us, last.number, f"withdrawn {number}"
            kernels = BucketsAgain(*own, came_us)
            step = f"repair {query.name}, repair {number}: answers without retracted rows"
            written = run_buckets(self.engine, step, rows, last.buckets, kernels, outputs)
            for entries, more in zip(found, written.entries, strict=True):
                entries.append(more)
        return [pa.concat_tables(entries) for entries in found]

    def _replace_states(self, entries: pa.Table, number: int) -> None:
        """Put states in the place of all that there are, once."""
        table, last = self.layout.states(self.query.name), finished(self.layout, self.query.name)
        if policy := read_state(self.layout, self.query.name, last):
            sink = sink_of(table)
            entries = pa.concat_tables([entries, sink.write(pa.Table.from_pylist([state_row(policy, last)]))])
        with tables.lease(self.layout, files_of(table), tables.MERGE_S):
            known = [str(file.path.relative_to(table)) for file in file_facts(table)]
            commit_entries(table, entries, (f"withdraw-{self.query.name}", number), known)
        crash_point("withdrawal.state-replaced")

    def answer(
        self,
        parts: pa.Table,
        ticks: Ticks,
        changed: Changed | None,
        how: str,
        number: int,
        whole: Sequence[tuple[int, int]] = (),
    ) -> Answered:
        """Append the answers that the buckets' parts come to, with the answers before them, and what these change.

        ``parts``: entries of their files, which are deleted. ``changed``: the ticks from which alarms may be others.
        ``whole``: ticks at which parts are all that there is, and take the place of the answers before.
        """
        layout, query = self.layout, self.query
        files = [(place_at(each["path"]), each["rows"]) for each in parts.to_pylist()]
        changed = changed if query.is_alarm else None
        if not files and changed is None and not whole:
            crash_point(_APPENDED[how])
            return Answered(0, 0)
        needed = layout.needed_slack(query.name)
        is_told = query.recall is not None and how == "repair"
        if is_told:
            tables.create(needed, "needed_slack")
        own = self.engine, layout, query, self.streams
        found = Revision(*own, how, number, files, self.parts_sink.columns, ticks, changed, whole).answered()
        self.commit(found.entries[0], layout.answers(query.name), how, number)
        if is_told:
            self.commit(found.entries[-1], needed, how, number)
        crash_point(_APPENDED[how])
        if changed is not None:
            self.commit(found.entries[1], layout.alarms(query.name), how, number)
            crash_point("queries.alarmed")
        for path, _ in files:
            path.unlink(missing_ok=True)
        new, revised = (sum(row[name] for row in found.metrics) for name in ("answered", "revised"))
        return Answered(new, revised, [row["needed"] for row in found.metrics])

    def _answered(
        self,
        manifest: BatchManifest,
        source: RowSource,
        clocks: Clocks,
        unread: list[SideRows],
        came_us: int | None,
    ) -> Buckets:
        """Run all buckets over a batch; they write their states, log, and parts of answers.

        ``unread``: what tells tasks how far the batch comes, where ``clocks`` do not; ``came_us``: as
        ``BucketAggregate`` takes it.
        """
        layout, query, batch = self.layout, self.query, manifest.number
        files, before_us = self.state_files(manifest), clocks.before.until_us
        own = query, self.shape, self.state_before(manifest, files)
        work = BucketAggregate(*own, before_us, clocks.reached().until_us, came_us)
        constants = {"batch": batch, "time_us": before_us}
        log = Output(LOG, sink_of(layout.missed_rows(query.name)), constants)
        outputs = (self.states_output(batch), log, self.parts_output())
        rows = [*side_rows(source, query, self.streams, manifest.buckets), *unread]
        learn = partial(_knowing, work=work, clocks=clocks) if unread else None
        kernel = BatchKernel(work, files, manifest.scales, learn)
        step = f"query {query.name}, batch {batch}"
        return run_buckets(self.engine, step, rows, manifest.buckets, kernel, outputs)

    @property
    def parts_sink(self) -> TableSink:
        """The files of parts, which no commit names: where a process dies, a vacuum deletes them."""
        groups = {f"`g_{name}`": kind for name, kind in group_types(self.query, self.streams).items()}
        columns = {"bucket": "int", "tick_us": "bigint", "results": "bigint", **groups}
        columns |= part_types(len(self.shape.aggregates))
        folder = self.layout.answers(self.query.name).absolute()
        text = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        return TableSink(str(folder), schema_of(text), frozenset())

    def parts_output(self) -> Output:
        """Return how buckets write parts of answers."""
        return Output(PART, self.parts_sink, {})

    def _changed(self, ticks: Ticks, before: Progress, after: Progress) -> Changed | None:
        if after.until_us is None:
            return None
        every = self.query.every_us
        last = floor_to(every, after.until_us)
        # Before the first answer nothing can have raised an alarm.
        first = last if before.until_us is None else floor_to(every, before.until_us) + every
        if ticks.first_us is None and last < first:
            return None
        return Changed(first if ticks.first_us is None else min(first, ticks.first_us), last)


def _knowing(read: Sequence[dict[str, Any]], *, work: BucketAggregate, clocks: Clocks) -> BucketAggregate:
    """Return the work of a batch that knows how far it comes."""
    return replace(work, until_us=clocks.reached(read).until_us)


def ticks_of(metrics: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], Ticks]:
    """Return what each bucket did, and which ticks have parts."""
    buckets = [dict(row) for row in metrics]
    first, revised, last = ([row.pop(name) for row in buckets if row[name] is not None] for name in _TICKS)
    return buckets, Ticks(min(first, default=None), min(revised, default=None), max(last, default=None))


@dataclass(frozen=True)
class Answered:
    """Number of ticks and groups that were answered for the first time, and again.

    ``needed``: with a recall, counts of these by the slack that they needed, in parts.
    """

    new: int
    revised: int
    needed: Sequence[Sequence[int]] = ()


run_of = AggregateRun.of

"""The tables of a join-aggregate: the columns that its own names give them, and frames of deviations for rules.

The frames are small: per batch, per repair, of its answers and alarms. Answers and alarms are judged at the ticks that
batches and repairs since the last good check have answered, each tick with all its revisions. Cost: three columns of
all answers are read once, and all of the answers at those ticks, which are held in memory; alarms are read whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate.query import AggregateQuery, shape_of
from lakehouse.queries.runtime import tables
from lakehouse.queries.runtime.checks import COUNTS, Counting, QueryTables, scanned
from lakehouse.queries.runtime.tables import NewTable, as_columns, column_type, tables_of_repairs
from lakehouse.spark.deviations import Frame
from lakehouse.storage.layout import Home

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Int64s
    from lakehouse.engine import Engine

PARTS = {"counted": "bigint", "high": "double", "low": "double", "extreme": "double"}
_ANSWERED = ("answered", "revised")
# What clears an alarm that holds still.
_NEVER = 2**62


def group_types(query: AggregateQuery, streams: Mapping[str, Stream]) -> dict[str, str]:
    """Return the columns of GROUP BY, by the names that answers have for them, with their stored types."""
    return {group.name: column_type(streams, query.sides[group.side], group.column) for group in query.groups}


def measure_types(query: AggregateQuery) -> dict[str, str]:
    """Return the aggregates that SELECT and HAVING name, with their stored types."""
    return {measure.name: "bigint" if measure.function == "count" else "double" for measure in query.measures}


def part_types(aggregates: int) -> dict[str, str]:
    """Return the columns of the parts of so many aggregates: how many values, their sum as two, their extreme."""
    return {f"{part}_{number}": kind for number in range(aggregates) for part, kind in PARTS.items()}


def create_tables(layout: Home, query: AggregateQuery, streams: Mapping[str, Stream]) -> None:
    """Create the query's tables where they are not there."""
    name, groups = query.name, as_columns(group_types(query, streams))
    parts = as_columns(part_types(len(shape_of(query).aggregates)))
    columns = {"columns": groups + as_columns(measure_types(query)), "parts": parts}
    own = [NewTable(layout.answers(name), "answers", columns), *tables_of_repairs(layout, name)]
    if query.is_alarm:
        own.append(NewTable(layout.alarms(name), "alarms", {"groups": groups}))
    tables.create_tables(layout, name, own, "aggregate_batches")


@dataclass(frozen=True)
class AggregateTables(QueryTables):
    """A join-aggregate's tables; answers are judged at ticks that batches after ``since`` have answered."""

    columns = (*COUNTS, *_ANSWERED, "time_us")
    found_columns = _ANSWERED
    query: AggregateQuery
    since: int

    @property
    def last_tick_us(self) -> int | None:
        """The last tick that is answered, None before the first."""
        time_us = max(
            (row["time_us"] for row in self.metrics.rows if row["time_us"] is not None), default=None
        )
        return None if time_us is None else time_us // self.query.every_us * self.query.every_us

    @cached_property
    def ticks(self) -> pa.Array:
        """The ticks that have been answered, or answered again, since the last good check."""
        columns = ("tick_us", "found", "batch")
        rows = _rows(self.layout.answers(self.query.name), columns, self._is_new())
        return pc.unique(rows["tick_us"]) if rows else pa.array([], pa.int64())

    @cached_property
    def answers(self) -> pa.Table | None:
        """Every tick of ``ticks`` and group with its finished revisions, None where there are none.

        ``revisions``: how many; ``different``: how many different ones; ``newest``: 2 * the last, and 1 if it holds.
        """
        groups = [group.name for group in self.query.groups]
        kept = ds.field("tick_us").isin(self.ticks) & self._is_finished()
        rows = _rows(self.layout.answers(self.query.name), ("tick_us", *groups, "revision", "holds"), kept)
        if rows is None:
            return None
        holds = rows["holds"].cast(pa.int64())
        rows = rows.append_column("newest", pc.add(pc.multiply(rows["revision"].cast(pa.int64()), 2), holds))
        parts = [("revision", "count"), ("revision", "count_distinct"), ("newest", "max")]
        told = rows.group_by(["tick_us", *groups]).aggregate(parts)
        names = {
            "revision_count": "revisions",
            "revision_count_distinct": "different",
            "newest_max": "newest",
        }
        return told.rename_columns([names.get(name, name) for name in told.column_names])

    @cached_property
    def alarms(self) -> pa.Table | None:
        """The finished changes of alarms, None where there are none."""
        groups = [group.name for group in self.query.groups]
        columns = ("alarm", *groups, "state", "raised_us", "cleared_us", "change", "found", "batch")
        return _rows(self.layout.alarms(self.query.name), columns, self._is_finished())

    def own_frames(self) -> Sequence[Frame]:
        """Return the frames of answers and alarms."""
        answers = Frame("answers", (), [answer_row(self)])
        return [answers, Frame("alarms", (), [alarm_row(self)])] if self.query.is_alarm else [answers]

    def _is_finished(self) -> ds.Expression:
        return self._found("online", -1, self.through) | self._found("repair", -1, self.metrics.last_repair)

    def _is_new(self) -> ds.Expression:
        # A repair of batches that the last good check has seen may have come after it.
        seen = [repair["repair"] for repair in self.metrics.repairs if repair["through"] < self.since]
        repairs = self._found("repair", max(seen, default=-1), self.metrics.last_repair)
        return self._found("online", self.since, self.through) | repairs

    def _found(self, how: str, after: int, through: int) -> ds.Expression:
        batch = ds.field("batch")
        return (ds.field("found") == how) & (batch > after) & (batch <= through)


def open_tables(
    engine: Engine, layout: Home, query: AggregateQuery, since: int, published_us: int | None
) -> AggregateTables | None:
    """Return what a query's tables hold, None where no batch is finished; ``since``: the last batch checked well."""
    answers = Counting(layout.answers(query.name), "found")
    return AggregateTables.opened(engine, layout, query, answers, since=since)


def answer_row(tables: AggregateTables) -> dict[str, Any]:
    """Return how many answers have revisions lost or twice, are of ticks to come, or of no tick."""
    answers, last = tables.answers, tables.last_tick_us
    if answers is None:
        return {"revision_gaps": 0, "too_early": 0, "between_ticks": 0}
    revisions, different, newest, tick = (
        answers[name].to_numpy() for name in ("revisions", "different", "newest", "tick_us")
    )
    is_whole = (revisions == different) & (revisions == newest // 2 + 1)
    too_early = tick > last if last is not None else np.ones(len(tick), np.bool_)
    return {
        "revision_gaps": int(np.count_nonzero(~is_whole)),
        "too_early": int(np.count_nonzero(too_early)),
        "between_ticks": int(np.count_nonzero(tick % tables.query.every_us)),
    }


def alarm_row(tables: AggregateTables) -> dict[str, Any]:
    """Return how many alarms have changes lost or twice, and how far alarms and answers that hold differ."""
    alarms = tables.alarms
    if alarms is None:
        none = alarms_at(tables, np.empty(0, np.int64), np.empty(0, np.int64))
        return {"change_gaps": 0, "misplaced": 0, "uncovered": none}
    told = alarms.group_by("alarm").aggregate(
        [("change", "count"), ("change", "count_distinct"), ("change", "max")]
    )
    counts, different, last = (
        told[name].to_numpy() for name in ("change_count", "change_count_distinct", "change_max")
    )
    gaps = int(np.count_nonzero((counts != different) | (counts != last + 1)))
    standing = _standing(alarms, told)
    raised, cleared = standing["raised_us"].to_numpy(), standing["cleared_us"].fill_null(_NEVER).to_numpy()
    return {
        "change_gaps": gaps,
        "misplaced": misplaced(tables, standing),
        "uncovered": alarms_at(tables, raised, cleared),
    }


def alarms_at(tables: AggregateTables, raised_us: Int64s, cleared_us: Int64s) -> int:
    """Return by how many, over all ticks judged, groups that HAVING lets through are more or fewer than alarms."""
    ticks = np.sort(tables.ticks.to_numpy(zero_copy_only=False))
    alarms = np.searchsorted(np.sort(raised_us), ticks, side="right")
    alarms -= np.searchsorted(np.sort(cleared_us), ticks, side="right")
    holding = np.zeros(len(ticks), np.int64)
    if tables.answers is not None:
        holds = tables.answers.filter(pc.equal(pc.bit_wise_and(tables.answers["newest"], 1), 1))
        np.add.at(holding, np.searchsorted(ticks, holds["tick_us"].to_numpy()), 1)
    return int(np.abs(alarms - holding).sum())


def misplaced(tables: AggregateTables, standing: pa.Table) -> int:
    """Return how many alarms were raised at a tick judged at which HAVING does not hold, or cleared where it does."""
    answers = tables.answers
    groups = [group.name for group in tables.query.groups]
    if answers is None:
        return 0
    known = answers.select(["tick_us", *groups, "newest"])
    parts = [known.append_column("wanted", pa.nulls(known.num_rows, pa.int64()))]
    for column, wanted in (("raised_us", 1), ("cleared_us", 0)):
        at = standing.filter(pc.is_in(standing[column], value_set=tables.ticks)).select([column, *groups])
        told = at.rename_columns(["tick_us", *groups])
        told = told.append_column("newest", pa.nulls(told.num_rows, pa.int64()))
        parts.append(told.append_column("wanted", pa.repeat(wanted, told.num_rows).cast(pa.int64())))
    both = pa.concat_tables(parts).group_by(["tick_us", *groups])
    found = both.aggregate([("newest", "max"), ("wanted", "min"), ("wanted", "max")])
    holds = pc.fill_null(pc.bit_wise_and(found["newest_max"], 1), 0).to_numpy()
    least, most = (found[f"wanted_{end}"].fill_null(-1).to_numpy() for end in ("min", "max"))
    return int(np.count_nonzero(((most == 1) & (holds == 0)) | ((least == 0) & (holds == 1))))


def _standing(alarms: pa.Table, told: pa.Table) -> pa.Table:
    """Return the newest change of each alarm, of those that were not withdrawn."""
    last = told.select(["alarm", "change_max"]).rename_columns(["alarm", "last"])
    rows = alarms.join(last, "alarm").filter(pc.field("change") == pc.field("last"))
    return rows.filter(pc.field("state") != "withdrawn")


def _rows(table: Path, columns: Sequence[str], kept: ds.Expression) -> pa.Table | None:
    """Return rows of a table, None where there are none."""
    batches = [batch for batch in scanned(table, columns, kept) if batch.num_rows]
    return pa.Table.from_batches(batches) if batches else None

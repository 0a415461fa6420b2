"""Checks of answers and alarms, as one call of the engine in which rows meet by group.

    answers at the ticks that are judged, with all revisions, and changes of alarms
        -> all of a group in one place
        -> counts, and the ticks at which alarms are more or fewer than the answers that hold

Cost: the files that may have a judged tick, and all of alarms. The driver has the ticks, never an answer or an alarm.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.join_aggregate.alarms import OPEN_US
from lakehouse.algorithms.join_aggregate.contract import Int64s
from lakehouse.algorithms.late_join.ranges import covering_ranges
from lakehouse.engine import Engine, Item
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.value_codes import ALARM, ANSWER, coded, newest
from lakehouse.queries.runtime.logged import MOST_RANGES
from lakehouse.queries.runtime.tables import bucket_of, quoted
from lakehouse.queries.runtime.tasks.bucket import BucketResult, Metric
from lakehouse.queries.runtime.tasks.by_bucket import ROWS_A_PLACE, run_buckets
from lakehouse.queries.runtime.tasks.reading import Columns, Counted, FileRows, SideRows, Some, items_of
from lakehouse.spark.key_codes import key_codes
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import files_near
from lakehouse.storage.tables.table_reads import named_columns

# Answers with revisions lost or twice, of ticks to come, and of no tick.
ANSWERS = ("revision_gaps", "too_early", "between_ticks")
# Alarms with changes lost or twice, those raised or cleared where the answer says otherwise, and by how many, over all
# ticks judged, groups that HAVING lets through are more or fewer than alarms.
ALARMS = ("change_gaps", "misplaced", "uncovered")
_TICKS = pa.schema({"tick_us": pa.int64()})
_NEVER = 2**62


@dataclass(frozen=True)
class Checking:
    """A check of a query's answers and alarms.

    ``finished``: the condition on rows of finished batches and repairs; ``new``: on those since the last good check,
    which are of batches after ``since``, in numbers of either. ``last_us``: the last tick that is answered.
    """

    engine: Engine
    layout: Home
    query: AggregateQuery
    finished: str
    new: str
    since: int
    last_us: int | None

    @cached_property
    def ticks(self) -> Int64s:
        """The ticks that have been answered, or answered again, since the last good check, ascending."""
        table = self.layout.answers(self.query.name)
        files = files_near(table, "batch", [(self.since + 1, _NEVER)])
        rows = FileRows(named_columns(table, {"tick_us", "found", "batch"}), self.new)
        items = items_of((0, *each) for each in files)
        kernel = partial(_ticks, rows=Columns(rows, ("tick_us",)))
        found = self.engine.map(items, kernel, _TICKS, f"new ticks of {self.query.name}")
        return np.unique(found["tick_us"].to_numpy())

    def deviations(self) -> Counter[str]:
        """Return the deviations of answers and alarms. Cost: two Spark jobs."""
        query, groups = self.query, [group.name for group in self.query.groups]
        answers, alarms = self._answers, self._alarms if query.is_alarm else []
        places = 1 + sum(rows for _, rows in (*answers, *alarms)) // ROWS_A_PLACE
        table = self.layout.answers(query.name)
        rows = self._rows(table, places, ANSWER, ("tick_us", "revision", "holds"))
        inputs = [SideRows(answers, Some(rows, partial(_are_at, ticks=self.ticks)))]
        if query.is_alarm:
            own = ("alarm", "state", "raised_us", "cleared_us", "change")
            inputs.append(SideRows(alarms, self._rows(self.layout.alarms(query.name), places, ALARM, own)))
        kernels = Judges(tuple(groups), query.every_us, self.last_us, self.ticks, query.is_alarm)
        names = (*ANSWERS, *(ALARMS[:2] if query.is_alarm else ()))
        found = run_buckets(self.engine, f"check {query.name}", inputs, places, kernels, ())
        counts, off = Counter[str](), Counter[int]()
        for row in found.metrics:
            counts.update({name: row[name] for name in names})
            for tick_us, more in zip(row["tick_us"], row["off"], strict=True):
                off[tick_us] += more
        counts["uncovered"] = sum(map(abs, off.values()))
        return counts

    @property
    def _answers(self) -> list[Counted]:
        """Return the files that may have a judged tick."""
        ranges = covering_ranges(self.ticks, self.ticks, MOST_RANGES) if len(self.ticks) else ()
        return files_near(self.layout.answers(self.query.name), "tick_us", ranges)

    @property
    def _alarms(self) -> list[Counted]:
        return files_near(self.layout.alarms(self.query.name), "batch", [(-_NEVER, _NEVER)])

    def _rows(self, table: Location, places: int, kind: str, own: Sequence[str]) -> Columns:
        """Return rows of a table with the place in which those of a group meet."""
        groups = [group.name for group in self.query.groups]
        stored = named_columns(table, {*own, *groups, "found", "batch"})
        grouped = (f"`{name}` AS `g_{name}`" for name in groups)
        columns = (f"'{kind}' AS kind", bucket_of(quoted(groups), places), *quoted(own), *grouped)
        return Columns(FileRows(stored, self.finished), columns)


def _ticks(item: Item, *, rows: Columns) -> Iterator[pa.Table]:
    for batch in rows.batches(item["paths"]):
        yield pa.table({"tick_us": pc.unique(batch.column("tick_us"))}, _TICKS)


def _are_at(rows: pa.RecordBatch, ticks: Int64s) -> np.ndarray:
    return np.isin(rows.column("tick_us").to_numpy(), ticks)


@dataclass(frozen=True)
class Judges:
    """The kernel of places, each of which has all answers and alarms of its groups."""

    groups: tuple[str, ...]
    every_us: int
    last_us: int | None
    ticks: Int64s
    is_alarm: bool

    def __call__(self, place: int, rows: pa.Table) -> BucketResult:
        """Return what is wrong in a place with rows."""
        rows = rows.append_column("group", pa.array(coded(rows, [f"g_{name}" for name in self.groups])))
        answers = _revised(rows.filter(pc.equal(rows["kind"], ANSWER)))
        metrics: dict[str, Metric] = {**self._of_answers(answers), "tick_us": [], "off": []}
        if self.is_alarm:
            changes = rows.filter(pc.equal(rows["kind"], ALARM))
            standing = newest(changes, ["alarm"], "change").filter(pc.field("state") != "withdrawn")
            metrics["change_gaps"] = _gaps(changes)
            metrics["misplaced"] = self._misplaced(answers, standing)
            metrics |= self._off(answers, standing)
        return BucketResult(metrics=metrics)

    def _of_answers(self, answers: pa.Table) -> dict[str, int]:
        """Return how many answers have revisions lost or twice, are of ticks to come, or of no tick."""
        revisions, different, last, tick = (
            answers[name].to_numpy() for name in ("revisions", "different", "newest", "tick_us")
        )
        is_whole = (revisions == different) & (revisions == last // 2 + 1)
        too_early = tick > (-_NEVER if self.last_us is None else self.last_us)
        wrong = (~is_whole, too_early, tick % self.every_us != 0)
        return {name: int(np.count_nonzero(each)) for name, each in zip(ANSWERS, wrong, strict=True)}

    def _misplaced(self, answers: pa.Table, standing: pa.Table) -> int:
        """Return how many alarms were raised at a judged tick where HAVING does not hold, or cleared where it does."""
        held = _held(answers).select(["tick_us", "group"])
        wrong = 0
        for column, is_right in (("raised_us", True), ("cleared_us", False)):
            at = standing.filter(pc.is_in(standing[column], value_set=pa.array(self.ticks)))
            ends = at.select([column, "group"]).rename_columns(held.column_names)
            one, other = key_codes([ends, held])
            wrong += int(np.count_nonzero(np.isin(one.code, other.code) != is_right))
        return wrong

    def _off(self, answers: pa.Table, standing: pa.Table) -> dict[str, Metric]:
        """Return by how many alarms are more than answers that hold, at the judged ticks where they are not as many."""
        raised_us, cleared_us = (
            np.sort(standing[name].fill_null(OPEN_US).to_numpy()) for name in ("raised_us", "cleared_us")
        )
        off = np.searchsorted(raised_us, self.ticks, "right") - np.searchsorted(
            cleared_us, self.ticks, "right"
        )
        np.add.at(off, np.searchsorted(self.ticks, _held(answers)["tick_us"].to_numpy()), -1)
        at = np.flatnonzero(off)
        return {"tick_us": self.ticks[at].tolist(), "off": off[at].tolist()}


def _revised(answers: pa.Table) -> pa.Table:
    """Return every tick and group with its revisions.

    ``revisions``: how many; ``different``: how many different ones; ``newest``: 2 * the last, and 1 if it holds.
    """
    revision, holds = answers["revision"].cast(pa.int64()), answers["holds"].cast(pa.int64())
    answers = answers.append_column("newest", pc.add(pc.multiply(revision, 2), holds))
    parts = [("revision", "count"), ("revision", "count_distinct"), ("newest", "max")]
    found = answers.group_by(["tick_us", "group"]).aggregate(parts)
    return found.rename_columns(["tick_us", "group", "revisions", "different", "newest"])


def _held(answers: pa.Table) -> pa.Table:
    return answers.filter(pc.equal(pc.bit_wise_and(answers["newest"], 1), 1))


def _gaps(changes: pa.Table) -> int:
    """Return how many alarms have changes lost or twice."""
    parts = [("change", "count"), ("change", "count_distinct"), ("change", "max")]
    counts, different, last = changes.group_by("alarm").aggregate(parts).drop_columns("alarm").columns
    is_whole = pc.and_(pc.equal(counts, different), pc.equal(counts, pc.add(last.cast(pa.int64()), 1)))
    return pc.sum(pc.invert(is_whole)).as_py() or 0

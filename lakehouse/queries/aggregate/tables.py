"""The tables of a join-aggregate: the columns that its own names give them, and frames of deviations for rules.

The frames are small: per batch, per repair, of its answers and alarms. Answers and alarms are judged at the ticks that
batches and repairs since the last good check have answered, each tick with all its revisions ([checks.py](checks.py)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate.query import AggregateQuery, Measure, shape_of, values_of
from lakehouse.queries.kind import kind_of
from lakehouse.queries.runtime.checks import Counting, counted
from lakehouse.queries.runtime.recall.tables import RecallTables
from lakehouse.queries.runtime.tables import NewTable, as_columns, column_type
from lakehouse.spark.deviations import Frame
from lakehouse.storage.layout import Home

if TYPE_CHECKING:
    from lakehouse.queries.aggregate.checks import Checking

# With a recall, what an answer adds to the count of answers: ``online`` a complete one, ``late`` or ``repair`` another,
# ``revised`` and by which of both that one is complete no longer; else null.
COUNTED_AS = "counted_as"
PARTS = {"counted": "bigint", "high": "double", "low": "double", "extreme": "double"}


def group_types(query: AggregateQuery, streams: Mapping[str, Stream]) -> dict[str, str]:
    """Return the columns of GROUP BY, by the names that answers have for them, with their stored types."""
    return {group.name: column_type(streams, query.sides[group.side], group.column) for group in query.groups}


def measure_types(query: AggregateQuery) -> dict[str, str]:
    """Return the aggregates that SELECT and HAVING name, with their stored types."""
    return {measure.name: _type_of(query, measure) for measure in query.measures}


def _type_of(query: AggregateQuery, measure: Measure) -> str:
    if measure.value is None or measure.function == "count":
        return "bigint"
    value = values_of(query)[measure.side][measure.value]
    if measure.function in ("min", "max"):
        return value.type
    return "double" if value.scale is None or measure.function == "avg" else f"decimal(38,{value.scale})"


def part_types(aggregates: int) -> dict[str, str]:
    """Return the columns of the parts of so many aggregates: how many values, their sum as two, their extreme."""
    return {f"{part}_{number}": kind for number in range(aggregates) for part, kind in PARTS.items()}


def counted_types(query: AggregateQuery) -> dict[str, str]:
    """Return the column by which answers are counted for a recall, if there is one."""
    return {} if query.recall is None else {COUNTED_AS: "string"}


def own_tables(layout: Home, query: AggregateQuery, streams: Mapping[str, Stream]) -> Sequence[NewTable]:
    """Return the tables of its answers and alarms."""
    groups = group_types(query, streams)
    parts = part_types(len(shape_of(query).aggregates)) | counted_types(query)
    columns = {"columns": as_columns(groups | measure_types(query)), "parts": as_columns(parts)}
    own = [NewTable(layout.answers(query.name), "answers", columns)]
    alarms = NewTable(layout.alarms(query.name), "alarms", {"groups": as_columns(groups)})
    return [*own, alarms] if query.is_alarm else own


@dataclass(frozen=True)
class AggregateTables(RecallTables):
    """A join-aggregate's tables; answers are judged at ticks that batches after ``since`` have answered."""

    query: AggregateQuery

    @staticmethod
    def step_us(query: AggregateQuery) -> int | None:
        """Return none: answers are counted by steps apart, as a revision is no answer more."""
        return None

    def by_step(self) -> pa.Table:
        """Return answers by tick, and how many of them are complete. Cost: one Spark job over three columns."""
        answers = Counting(
            self.layout.answers(self.query.name),
            COUNTED_AS,
            self.query.every_us,
            time=kind_of(self.query).time,
        )
        (rows,) = counted(self.engine, [answers], f"answers of {self.query.name} by tick")
        by_repair = pc.fill_null(pc.match_substring(rows[COUNTED_AS], "repair"), False)
        last = pc.if_else(by_repair, self.metrics.last_repair, self.through)
        rows = rows.filter(pc.less_equal(rows["batch"], last))
        adds = {"online": (1, 1), "late": (1, 0), "repair": (1, 0)}
        names = rows[COUNTED_AS].to_pylist()
        each = np.array([adds.get(name, (0, -1 if name else 0)) for name in names], np.int64).reshape(-1, 2)
        whole, online = each.T * rows["count_all"].to_numpy()
        return pa.table({"start_us": rows["start_us"], "whole": whole, "online": online})

    @property
    def last_tick_us(self) -> int | None:
        """The last tick that is answered, None before the first."""
        time_us = max(
            (row["time_us"] for row in self.metrics.rows if row["time_us"] is not None), default=None
        )
        return None if time_us is None else time_us // self.query.every_us * self.query.every_us

    # Checks come with compiled loops, which nobody else waits for.
    @property
    def checking(self) -> Checking:
        """The check of answers and alarms."""
        from lakehouse.queries.aggregate.checks import Checking

        # A repair of batches that the last good check has seen may have come after it.
        seen = [repair["repair"] for repair in self.metrics.repairs if repair["through"] < self.since]
        repair = max(seen, default=-1)
        finished, new = self._found(-1, -1), self._found(self.since, repair)
        since = min(self.since, repair)
        return Checking(self.engine, self.layout, self.query, finished, new, since, self.last_tick_us)

    def own_frames(self) -> Sequence[Frame]:
        """Return the frames of answers and alarms."""
        from lakehouse.queries.aggregate.checks import ALARMS, ANSWERS

        counts = self.checking.deviations()
        kinds = {"answers": ANSWERS} | ({"alarms": ALARMS} if self.query.is_alarm else {})
        own = [Frame(kind, (), [{name: counts[name] for name in names}]) for kind, names in kinds.items()]
        return [*super().own_frames(), *own]

    def _found(self, batch: int, repair: int) -> str:
        """Return the condition on rows of batches after one, and of repairs after one, that are finished."""
        return (
            f"(found = 'online' AND batch > {batch} AND batch <= {self.through}"
            f" OR found = 'repair' AND batch > {repair} AND batch <= {self.metrics.last_repair})"
        )


tables_of = AggregateTables

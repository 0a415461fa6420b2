"""The tables of a join-aggregate: the columns that its own names give them, and frames of deviations for rules.

The frames are small: per batch, per repair, of its answers and alarms. Answers and alarms are judged at the ticks that
batches and repairs since the last good check have answered, each tick with all its revisions ([checks.py](checks.py)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate.query import AggregateQuery, shape_of
from lakehouse.queries.runtime import tables
from lakehouse.queries.runtime.checks import COUNTS, Counting, QueryTables
from lakehouse.queries.runtime.tables import NewTable, as_columns, column_type, tables_of_repairs
from lakehouse.spark.deviations import Frame
from lakehouse.storage.layout import Home

if TYPE_CHECKING:
    from lakehouse.engine import Engine
    from lakehouse.queries.aggregate.checks import Checking

PARTS = {"counted": "bigint", "high": "double", "low": "double", "extreme": "double"}
_ANSWERED = ("answered", "revised")


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
        return [Frame(kind, (), [{name: counts[name] for name in names}]) for kind, names in kinds.items()]

    def _found(self, batch: int, repair: int) -> str:
        """Return the condition on rows of batches after one, and of repairs after one, that are finished."""
        return (
            f"(found = 'online' AND batch > {batch} AND batch <= {self.through}"
            f" OR found = 'repair' AND batch > {repair} AND batch <= {self.metrics.last_repair})"
        )


def open_tables(
    engine: Engine, layout: Home, query: AggregateQuery, since: int, published_us: int | None
) -> AggregateTables | None:
    """Return what a query's tables hold, None where no batch is finished; ``since``: the last batch checked well."""
    answers = Counting(layout.answers(query.name), "found")
    return AggregateTables.opened(engine, layout, query, answers, since=since)

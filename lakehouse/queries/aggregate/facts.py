"""What a publisher must know about a registered join-aggregate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.aggregate.describe import measure_in_words
from lakehouse.queries.aggregate.query import AggregateQuery, GroupColumn, Measure
from lakehouse.queries.runtime.batch_metrics import read_figures
from lakehouse.queries.runtime.facts import files_of, published_from, shared_facts, stored_type
from lakehouse.serving.file.facts import QueryFacts, ShownColumn

_COUNTS = ("rows", "answered", "revised", "late", "missed", "refused", "unusable")
_FIGURES = ("batch", "bucket", *_COUNTS, "time_us", "newest_us")


@dataclass(frozen=True, kw_only=True)
class AggregateFacts(QueryFacts):
    """A join-aggregate as it is to be published.

    ``groups`` are the columns of GROUP BY, ``outputs`` the aggregates of SELECT, of which ``counts`` count: those are 0
    where nothing joins. ``alarm_files`` is None for a query that raises none.
    """

    every_us: int
    slack_us: int
    method: str
    groups: Sequence[ShownColumn]
    outputs: Sequence[ShownColumn]
    counts: Sequence[str]
    answered: int
    revised: int
    late: int
    answer_files: Sequence[Path]
    alarm_files: Sequence[Path] | None

    @property
    def last_tick_us(self) -> int | None:
        """The last tick that is answered, None before the first."""
        return None if self.time_us is None else self.time_us // self.every_us * self.every_us


def aggregate_facts(
    layout: Home, query: AggregateQuery, streams: Mapping[str, Stream], published_us: int | None
) -> AggregateFacts:
    """Return what a publisher is told of a query; ``published_us`` back from its newest time, None for all."""
    # Before the files, so that these have all that the figures speak of.
    figures = read_figures(layout, query.name, _FIGURES)
    shared = shared_facts(
        layout, query, streams, figures, [time for row in figures.rows for time in row["newest_us"]]
    )
    shown = [measure for measure in query.measures if measure.is_shown]
    return AggregateFacts(
        **shared,
        published_from_us=published_from(shared["newest_us"], published_us, query.every_us),
        every_us=query.every_us,
        slack_us=query.slack_us,
        method=query.method,
        groups=[_group(query, streams, group) for group in query.groups],
        outputs=[_output(query, measure) for measure in shown],
        counts=[measure.name for measure in shown if measure.function == "count"],
        answered=figures.total("answered"),
        revised=figures.total("revised"),
        late=figures.total("late"),
        answer_files=files_of(layout.answers(query.name)),
        alarm_files=files_of(layout.alarms(query.name)) if query.is_alarm else None,
    )


def _group(query: AggregateQuery, streams: Mapping[str, Stream], group: GroupColumn) -> ShownColumn:
    side = query.sides[group.side]
    says = f"{group.column} of {side.stream}: one of GROUP BY."
    return ShownColumn(group.name, stored_type(streams[side.stream], group.column), says)


def _output(query: AggregateQuery, measure: Measure) -> ShownColumn:
    kind = "BIGINT" if measure.function == "count" else "DOUBLE"
    return ShownColumn(
        measure.name, kind, f"{measure_in_words(query, measure)} over all join results at the tick."
    )

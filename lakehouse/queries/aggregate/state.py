"""A registered join-aggregate as it stands, and explained: its plan, its buckets, what was revised, its alarms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakehouse.queries.aggregate.query import (
    AggregateQuery,
    equalities_in_words,
    groups_in_words,
    having_in_words,
    measure_in_words,
    method_in_words,
    methods_of,
    other_methods_in_words,
    shown_in_words,
    slack_in_words,
    spread_in_words,
    ticks_in_words,
)
from lakehouse.queries.runtime.batch_manifest import Scale
from lakehouse.queries.runtime.batch_metrics import is_finished
from lakehouse.queries.runtime.progress import passed_us, progress_before
from lakehouse.queries.runtime.state import (
    Declared,
    Facts,
    QueryState,
    batch_sums,
    bucket_sums,
    completeness_of,
    conditions_on,
    last,
    number_in_words,
    repairs_of,
    target_of,
)
from lakehouse.serving.literals import parquet_of

_COUNTED = ("rows", "late", "missed", "refused", "unusable")
_ANSWERED = ("answered", "revised")
_HELD = ("held", "bytes")


@dataclass(frozen=True)
class AggregateState(QueryState):
    """One join-aggregate, as its tables have it."""

    query: AggregateQuery

    def own_summary(self) -> Facts:
        """Return what it joins and answers, by which method, answers given and changed, and alarms raised now."""
        return {
            "condition": equalities_in_words(self.query),
            "groups": [group.name for group in self.query.groups],
            "outputs": {
                each.name: measure_in_words(self.query, each) for each in self.query.measures if each.is_shown
            },
            "every_us": self.query.every_us,
            "slack_us": self.query.slack_us,
            "recall": self.query.recall,
            "period_us": self.query.period_us,
            "method": self.query.method,
            "answered": self.metrics.total("answered"),
            "revised": self.metrics.total("revised"),
            "repaired": self.metrics.total_repaired("found"),
            "alarms": self._raised() if self.query.is_alarm else None,
            "next_tick": self._next_tick(),
        }

    def _next_tick(self) -> Facts | None:
        """Return the next tick and the streams whose rows it waits for; None before ticks are answered.

        With IDLE it is also answered, without them, once some stream has a row from ``idle_from_us`` on.
        """
        if not self.metrics.finished:
            return None
        known, step = progress_before(self.layout, self.query, self.metrics.finished + 1), self.query.every_us
        if known.until_us is None:
            return None
        tick_us, idle_us = (known.until_us // step + 1) * step, self.query.idle_us
        from_us = tick_us + (slack_us(self.query, known.newest_us, known.until_us) or 0)
        newest = dict(zip(self.query.streams, known.newest_us, strict=True))
        return {
            "tick_us": tick_us,
            "waits_for": [name for name, time in newest.items() if time is None or time < from_us],
            "idle_from_us": None if idle_us is None else from_us + idle_us,
        }

    def _raised(self) -> int:
        """Return how many alarms are raised now; one pass over all their changes."""
        source = parquet_of(self.layout.alarms(self.query.name))
        if source is None:
            return 0

        from lakehouse.serving.table_reader import connected

        done = is_finished(self.metrics.finished, self.metrics.last_repair)
        newest = f"SELECT max_by(state, change) AS state FROM {source} WHERE {done} GROUP BY alarm"
        with connected(self.layout.tables) as connection:
            row = connection.execute(f"SELECT count(*) FROM ({newest}) WHERE state = 'raised'").fetchone()
        return int(row[0]) if row else 0


state_of = AggregateState


def explain(state: AggregateState, declared: Declared) -> Facts:
    """Return what is known of a query of this kind alone, as plain values."""
    # The list of queries does without DuckDB.
    from lakehouse.queries.aggregate.live_answers import standing
    from lakehouse.queries.aggregate.publish import snapshot_of

    snapshot = snapshot_of(state.layout, state.query, declared.streams, declared.published_us)
    return {
        "plan": _plan(state.query, state.scale),
        "buckets": list(_buckets(state)),
        "last_batches": last(batches(state)),
        **standing(snapshot),
        **repairs_of(state),
        **(completeness_of(state) or {"completeness": {}}),
    }


def _plan(query: AggregateQuery, scale: Scale | None) -> Facts:
    return {
        "sides": [
            {
                "stream": side.stream,
                "alias": side.alias,
                "window_us": side.window_us,
                **conditions_on(side),
                "keys": [column for _, column in side.keys],
            }
            for side in query.sides
        ],
        "groups": groups_in_words(query),
        "shows": shown_in_words(query),
        "having": having_in_words(query) if query.having else None,
        "is_alarm": query.is_alarm,
        "ticks": ticks_in_words(query),
        "slack": slack_in_words(query),
        "method": query.method,
        "is_forced": query.is_forced,
        "methods": [{"method": name, "why_not": why_not} for name, why_not in methods_of(query)],
        "run_by": method_in_words(query),
        "others": other_methods_in_words(query),
        "buckets": scale.buckets if scale else None,
        "spread": spread_in_words(query, number_in_words(scale)),
        **target_of(query),
    }


def _buckets(state: AggregateState) -> Iterator[Facts]:
    """Yield each bucket with what it holds after the last batch, and what it has counted since the first."""
    for row, is_now, sums in bucket_sums(state, _COUNTED):
        held = {name: row[name] if is_now else 0 for name in _HELD}
        yield {"bucket": row["bucket"], **held, **sums}


def batches(state: AggregateState) -> Iterator[Facts]:
    """Yield each finished batch: sums over its buckets, what it answered, until when, and how long ticks waited."""
    for rows, sums in batch_sums(state, (*_COUNTED, *_ANSWERED, *_HELD)):
        yield {**sums, "slack_us": slack_us(state.query, rows[0]["newest_us"], sums["time_us"])}


def slack_us(query: AggregateQuery, newest_us: Sequence[int | None], answered_us: int | None) -> int | None:
    """Return how far ticks are answered behind what all streams have passed; None of a query without a recall."""
    time_us = passed_us(newest_us, query.idle_us)
    return None if query.recall is None or time_us is None or answered_us is None else time_us - answered_us

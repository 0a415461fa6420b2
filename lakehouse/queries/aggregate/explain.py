"""A registered join-aggregate explained: what it does, what each bucket holds, what was revised, what alarms stand.

Reads the query's tables as they are now, not a published version; starts no JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from lakehouse.queries.aggregate.describe import (
    groups_in_words,
    having_in_words,
    method_in_words,
    methods_of,
    other_methods_in_words,
    shown_in_words,
    slack_in_words,
    spread_in_words,
    ticks_in_words,
)
from lakehouse.queries.aggregate.live_answers import standing
from lakehouse.queries.aggregate.publish import AggregateSnapshot
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.state import AggregateState
from lakehouse.queries.pairs.explain import LAST, asked_of, scans_explained, to_repair
from lakehouse.queries.runtime.state import Facts, newest_time

_COUNTED = ("rows", "late", "missed", "refused", "unusable")
_ANSWERED = ("answered", "revised")
_HELD = ("held", "bytes")


def explain_aggregate(state: AggregateState, answers: AggregateSnapshot) -> Facts:
    """Return all that is known of a query, as plain values; times in microseconds, None for no time yet."""
    return {
        **state.facts(),
        "text": state.query.text,
        "meant_before": state.meant,
        "means": state.means,
        "plan": _plan(state.query, state.buckets),
        "buckets": list(_buckets(state)),
        "last_batches": list(aggregate_batches(state))[-LAST:],
        **standing(answers),
        "to_repair": to_repair(state),
        "last_repairs": state.figures.repairs[-LAST:],
        **scans_explained(state),
    }


def _plan(query: AggregateQuery, buckets: int) -> Facts:
    return {
        "sides": [
            {
                "stream": side.stream,
                "alias": side.alias,
                "window_us": side.window_us,
                **asked_of(side),
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
        "buckets": buckets if query.bucketed_by else 1,
        "spread": spread_in_words(query, buckets),
    }


def _buckets(state: AggregateState) -> Iterator[Facts]:
    """Yield each bucket with what it holds after the last batch, and what it has counted since the first."""
    now = {row["bucket"]: row for row in state.figures.last_batch}
    for bucket in sorted({row["bucket"] for row in state.figures.rows} - {-1}):
        own = [row for row in state.figures.rows if row["bucket"] == bucket]
        held = {name: now[bucket][name] if bucket in now else 0 for name in _HELD}
        yield {"bucket": bucket, **held, **{name: sum(row[name] for row in own) for name in _COUNTED}}


def aggregate_batches(state: AggregateState) -> Iterator[Facts]:
    """Yield each finished batch: sums over its buckets, what it answered, and until when."""
    for number, of_batch in groupby(state.figures.rows, key=lambda row: row["batch"]):
        rows = list(of_batch)
        yield {
            "batch": number,
            "committed_at": rows[0]["committed_at"],
            **{name: sum(row[name] or 0 for row in rows) for name in (*_COUNTED, *_ANSWERED, *_HELD)},
            "time_us": newest_time(rows),
        }

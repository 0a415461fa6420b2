"""A registered join-aggregate explained: its plan, what each bucket holds, what was revised, what alarms stand."""

from __future__ import annotations

from collections.abc import Iterator

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
from lakehouse.queries.aggregate.publish import snapshot_of
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.state import AggregateState
from lakehouse.queries.runtime.batch_manifest import Scale
from lakehouse.queries.runtime.explain import (
    Declared,
    batch_sums,
    bucket_sums,
    conditions_on,
    last,
    number_in_words,
    repairs_of,
)
from lakehouse.queries.runtime.state import Facts

_COUNTED = ("rows", "late", "missed", "refused", "unusable")
_ANSWERED = ("answered", "revised")
_HELD = ("held", "bytes")


def explain(state: AggregateState, declared: Declared) -> Facts:
    """Return what is known of a query of this kind alone, as plain values."""
    snapshot = snapshot_of(state.layout, state.query, declared.streams, declared.published_us)
    return {
        "plan": _plan(state.query, state.scale),
        "buckets": list(_buckets(state)),
        "last_batches": last(batches(state)),
        **standing(snapshot),
        **repairs_of(state),
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
    }


def _buckets(state: AggregateState) -> Iterator[Facts]:
    """Yield each bucket with what it holds after the last batch, and what it has counted since the first."""
    for row, is_now, sums in bucket_sums(state, _COUNTED):
        held = {name: row[name] if is_now else 0 for name in _HELD}
        yield {"bucket": row["bucket"], **held, **sums}


def batches(state: AggregateState) -> Iterator[Facts]:
    """Yield each finished batch: sums over its buckets, what it answered, and until when."""
    return (sums for _, sums in batch_sums(state, (*_COUNTED, *_ANSWERED, *_HELD)))

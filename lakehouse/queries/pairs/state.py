"""A registered join of pairs as it stands, and explained: its plan, its buckets, how complete it is, what it missed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.late_join.margin import judged_share
from lakehouse.queries.language.words import clock_in_words
from lakehouse.queries.pairs.query import (
    PairsQuery,
    buckets_in_words,
    condition_in_words,
    margin_of,
    policy_in_words,
)
from lakehouse.queries.runtime.batch_manifest import Scale
from lakehouse.queries.runtime.state import (
    Declared,
    Facts,
    QueryState,
    batch_sums,
    bucket_sums,
    conditions_on,
    last,
    number_in_words,
    outputs_of,
    repairs_of,
)

if TYPE_CHECKING:
    from lakehouse.queries.pairs.completeness import PairsCompleteness

_COUNTED = ("rows", "pairs", "missed", "refused", "unusable", "late_after_silence")
_HELD = ("held", "most_held", "bytes")
_SLACKS = ("left_slack_us", "right_slack_us")


@dataclass(frozen=True)
class PairsState(QueryState):
    """One join, as its tables have it."""

    query: PairsQuery

    @cached_property
    def completeness(self) -> PairsCompleteness:
        """Completeness of the query; it reads all pairs, so it is made when it is asked for."""
        from lakehouse.queries.pairs.completeness import PairsCompleteness

        return PairsCompleteness(self.layout, self.query, self.metrics, self.scale.since if self.scale else 1)

    def own_summary(self) -> Facts:
        """Return what it joins, the recall asked for, and pairs found online and by repair."""
        return {
            "window_us": self.query.window_us,
            "condition": condition_in_words(self.query),
            "recall": self.query.recall,
            "period_us": self.query.period_us,
            "pairs_online": self.metrics.standing("pairs"),
            "pairs_repaired": self.metrics.standing_repaired,
        }


state_of = PairsState


def explain(state: PairsState, declared: Declared) -> Facts:
    """Return what is known of a query of this kind alone, as plain values."""
    return {
        "plan": _plan(state.query, state.scale),
        "buckets": list(_buckets(state)),
        "last_batches": last(batches(state)),
        "completeness": state.completeness.summary(),
        "enough_slack": state.completeness.enough_slack(),
        "late_slack": state.completeness.late_slack(),
        **repairs_of(state),
    }


def _plan(query: PairsQuery, scale: Scale | None) -> Facts:
    margin = None if query.policy == "paper" else margin_of(query)
    return {
        "sides": [
            {"stream": s.stream, "alias": s.alias, **conditions_on(s), "keys": s.keys, "numbers": s.numbers}
            for s in query.sides
        ],
        "outputs": outputs_of(query),
        "step_us": query.step_us,
        "policy": query.policy,
        "sources": query.sources,
        "spare_rows": 0 if query.policy == "paper" else query.spare_rows,
        "margin": margin,
        "judged_recall": None if margin is None else judged_share(query.recall, margin),
        "slack": policy_in_words(query),
        "buckets": scale.buckets if scale else None,
        "spread": buckets_in_words(query, number_in_words(scale)),
        "clock": clock_in_words(query.clock.idle_us, query.clock.ahead_of_arrival_us, "side"),
    }


def _buckets(state: PairsState) -> Iterator[Facts]:
    """Yield each bucket as its last batch left it, with what it has counted since the first."""
    bucket, needed_us = state.completeness.late_rows
    buckets, first = np.unique(bucket, return_index=True)
    late_us = dict(zip(buckets.tolist(), needed_us[first].tolist(), strict=True))
    for row, _, sums in bucket_sums(state, _COUNTED):
        told = {name: row[name] for name in ("bucket", *_HELD, *_SLACKS, "time_us")}
        yield told | sums | {"late_us": late_us.get(row["bucket"])}


def batches(state: PairsState) -> Iterator[Facts]:
    """Yield each finished batch: sums over its buckets, and the range of their slacks.

    ``most_held`` adds the most that each bucket held, which need not have been at one moment.
    """
    for rows, sums in batch_sums(state, (*_COUNTED, *_HELD)):
        slacks = {name: [row[name] for row in rows if row["bucket"] >= 0] for name in _SLACKS}
        yield sums | {name: (min(found), max(found)) if found else None for name, found in slacks.items()}

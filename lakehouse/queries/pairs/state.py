"""A registered join of pairs as it stands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lakehouse.queries.pairs.describe import condition_in_words
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.runtime.state import Facts, QueryState

if TYPE_CHECKING:
    from lakehouse.queries.pairs.completeness import Completeness


@dataclass(frozen=True)
class PairsState(QueryState):
    """One join, as its tables have it."""

    query: PairsQuery
    own_metrics = ("pairs", "late_after_silence", "most_held", "left_slack_us", "right_slack_us")

    @cached_property
    def completeness(self) -> Completeness:
        """How complete the query has been; it reads all pairs, so it is made when it is asked for."""
        from lakehouse.queries.pairs.completeness import Completeness

        return Completeness(self.layout, self.query, self.metrics, self.scale.since if self.scale else 1)

    def own_summary(self) -> Facts:
        """Return what it joins, the recall asked for, and pairs found online and by repair."""
        return {
            "window_us": self.query.window_us,
            "condition": condition_in_words(self.query),
            "recall": self.query.recall,
            "period_us": self.query.period_us,
            "pairs_online": self.metrics.total("pairs"),
            "pairs_repaired": self.metrics.total_repaired("found"),
        }


state_of = PairsState

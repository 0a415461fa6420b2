"""A registered join of pairs as it stands."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.queries.pairs.describe import condition_in_words, streams_in_words
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.runtime.state import Facts, QueryState


@dataclass(frozen=True)
class JoinState(QueryState):
    """One join, as its tables have it."""

    query: PairsQuery
    kind = "pairs"
    own_figures = ("pairs", "late_after_silence", "most_held", "left_slack_us", "right_slack_us")

    def own_facts(self) -> Facts:
        """Return what it joins, the recall asked for, and pairs found online and by repair."""
        return {
            "join": streams_in_words(self.query),
            "window_us": self.query.window_us,
            "condition": condition_in_words(self.query),
            "recall": self.query.recall,
            "period_us": self.query.period_us,
            "pairs_online": self.figures.total("pairs"),
            "pairs_repaired": self.figures.total_repaired("found"),
        }

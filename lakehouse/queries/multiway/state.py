"""A registered join of three streams or more as it stands."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.queries.multiway.describe import equalities_in_words
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.runtime.state import Facts, QueryState

BATCH_METRICS = ("results", "shuffled", "collected")
COSTS = ("planned_cost", "real_cost")


@dataclass(frozen=True)
class MultiwayState(QueryState):
    """One join of three streams or more, as its tables have it."""

    query: MultiwayQuery
    partition_column = "side"
    own_metrics = ("visits", "joined", "why", "planned", "moved", *COSTS, *BATCH_METRICS)

    def own_summary(self) -> Facts:
        """Return what it joins, results found online and by repair, rows that left their site, and bytes moved."""
        metrics = self.metrics
        return {
            "condition": equalities_in_words(self.query),
            "slack_us": self.query.slack_us,
            "results_online": metrics.total("results"),
            "results_repaired": metrics.total_repaired("found"),
            "left": sum(left_site(row) for row in metrics.rows if row["side"] >= 0),
            **{name: metrics.total(name) for name in COSTS},
            "moved_bytes": metrics.total("shuffled") + metrics.total("collected"),
        }


state_of = MultiwayState


def left_site(row: Facts) -> int:
    """Return how many of one side's new rows left their site; all that can join where nothing was pruned."""
    return int(row["moved"][0]) if row["moved"] else _joinable(row)


def pruned(row: Facts) -> int:
    """Return how many of one side's new rows stayed at home, as nothing could join them."""
    return _joinable(row) - left_site(row)


def _joinable(row: Facts) -> int:
    return int((row["rows"] or 0) - (row["refused"] or 0) - (row["unusable"] or 0))

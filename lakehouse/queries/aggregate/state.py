"""A registered join-aggregate as it stands."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.queries.aggregate.describe import equalities_in_words, measure_in_words
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.runtime.batch_metrics import is_finished
from lakehouse.queries.runtime.state import Facts, QueryState
from lakehouse.serving.literals import parquet_of
from lakehouse.serving.table_reader import connected


@dataclass(frozen=True)
class AggregateState(QueryState):
    """One join-aggregate, as its tables have it."""

    query: AggregateQuery
    own_metrics = ("answered", "revised", "late")

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
            "method": self.query.method,
            "answered": self.metrics.total("answered"),
            "revised": self.metrics.total("revised"),
            "repaired": self.metrics.total_repaired("found"),
            "alarms": self._raised() if self.query.is_alarm else None,
        }

    def _raised(self) -> int:
        """Return how many alarms are raised now; one pass over all their changes."""
        source = parquet_of(self.layout.alarms(self.query.name))
        if source is None:
            return 0

        done = is_finished(self.metrics.finished, self.metrics.last_repair)
        newest = f"SELECT max_by(state, change) AS state FROM {source} WHERE {done} GROUP BY alarm"
        with connected() as connection:
            row = connection.execute(f"SELECT count(*) FROM ({newest}) WHERE state = 'raised'").fetchone()
        return int(row[0]) if row else 0


state_of = AggregateState

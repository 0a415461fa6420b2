"""A sample as it stands."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.queries.runtime.state import Declared, Facts, QueryState
from tests.queries.toy_kind.query import SampleQuery


@dataclass(frozen=True)
class SampleState(QueryState):
    """One sample, as its tables have it."""

    query: SampleQuery

    def own_summary(self) -> Facts:
        """Return how many rows it has sampled."""
        return {"one_in": self.query.one_in, "selected": self.metrics.total("selected")}


state_of = SampleState


def explain(state: SampleState, declared: Declared) -> Facts:
    """Return its plan."""
    return {"plan": {"outputs": [each.name for each in state.query.outputs]}}

"""A sample explained."""

from __future__ import annotations

from lakehouse.queries.runtime.explain import Declared
from lakehouse.queries.runtime.state import Facts
from tests.queries.toy_kind.state import SampleState


def explain(state: SampleState, declared: Declared) -> Facts:
    """Return its plan."""
    return {"plan": {"outputs": [each.name for each in state.query.outputs]}}

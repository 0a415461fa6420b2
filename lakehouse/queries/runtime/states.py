"""All registered queries as they stand."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse.home.layout import Home
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.state import AggregateState
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.state import MultiwayState
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.state import JoinState
from lakehouse.queries.registered import Query
from lakehouse.queries.runtime.reset_query import known_queries
from lakehouse.queries.runtime.state import Facts
from lakehouse.queries.selection.query import SelectionQuery
from lakehouse.queries.selection.state import SelectionState

State = AggregateState | MultiwayState | SelectionState | JoinState


def state_of(layout: Home, query: Query, buckets: int) -> State:
    """Return a query as it stands, by its kind."""
    if isinstance(query, SelectionQuery):
        return SelectionState(layout, query, buckets)
    if isinstance(query, AggregateQuery):
        return AggregateState(layout, query, buckets)
    if isinstance(query, MultiwayQuery):
        return MultiwayState(layout, query, buckets)
    assert isinstance(query, PairsQuery)
    return JoinState(layout, query, buckets)


def overview(layout: Home, registered: Mapping[str, Query], buckets: int) -> Facts:
    """Return every registered query, and the names of those that have tables and are registered no longer."""
    gone = [name for name in known_queries(layout) if name not in registered]
    states = [state_of(layout, query, buckets) for query in registered.values()]
    return {"queries": [state.facts() for state in states], "unregistered": gone}

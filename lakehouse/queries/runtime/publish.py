"""Every registered query, of any kind: which can be published, and its facts -> tables of the new file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.home.table_log import newest_version
from lakehouse.queries.aggregate.facts import AggregateFacts, aggregate_facts
from lakehouse.queries.aggregate.publish import write_answers, write_values
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.multiway.facts import MultiwayFacts, multiway_facts
from lakehouse.queries.multiway.publish import write_results
from lakehouse.queries.pairs.facts import PairFacts, pair_facts
from lakehouse.queries.pairs.publish import write_pairs
from lakehouse.queries.registered import MultiwayQuery, Query, SelectionQuery
from lakehouse.queries.runtime.batch_manifest import is_of
from lakehouse.queries.selection.facts import SelectionFacts, selection_facts
from lakehouse.queries.selection.publish import write_selected
from lakehouse.serving.file.facts import QueryFacts

if TYPE_CHECKING:
    import duckdb


def queries_to_publish(
    layout: Home, registered: Mapping[str, Query], streams: Mapping[str, Stream], published_us: int | None
) -> tuple[list[QueryFacts], list[str]]:
    """Return the facts of every query that has tables, and the names of those whose tables are of another meaning."""
    made = [query for query in registered.values() if newest_version(layout.queries(query.name)) is not None]
    changed = [query.name for query in made if not is_of(layout.plans(query.name), query.definition())]
    told = [query_facts(layout, query, streams, published_us) for query in made if query.name not in changed]
    return told, changed


def query_facts(
    layout: Home, query: Query, streams: Mapping[str, Stream], published_us: int | None
) -> QueryFacts:
    """Return what a publisher is told of a query; ``published_us`` back from its newest time, None for all."""
    if isinstance(query, AggregateQuery):
        return aggregate_facts(layout, query, streams, published_us)
    if isinstance(query, SelectionQuery):
        return selection_facts(layout, query, streams, published_us)
    if isinstance(query, MultiwayQuery):
        return multiway_facts(layout, query, streams, published_us)
    return pair_facts(layout, query, streams, published_us)


def write_queries(connection: duckdb.DuckDBPyConnection, queries: Sequence[QueryFacts]) -> None:
    """Write everything of all queries; the catalogue tables are there."""
    ordered = sorted(queries, key=lambda facts: facts.name)
    for query in ordered:
        if isinstance(query, PairFacts):
            write_pairs(connection, query)
        elif isinstance(query, MultiwayFacts):
            write_results(connection, query)
        elif isinstance(query, SelectionFacts):
            write_selected(connection, query)
        elif isinstance(query, AggregateFacts):
            write_answers(connection, query)
    write_values(connection, [query for query in ordered if isinstance(query, AggregateFacts)])

"""Which registered queries can be published, and a snapshot of each, taken by its kind."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.home.table_log import newest_version
from lakehouse.queries.kind import Query, kind_of
from lakehouse.queries.runtime.batch_manifest import is_of
from lakehouse.queries.runtime.batch_metrics import Facts
from lakehouse.serving.file.query_snapshot import QuerySnapshot


def queries_to_publish(
    layout: Home,
    registered: Mapping[str, Query],
    streams: Mapping[str, Stream],
    published_us: int | None,
    before: Mapping[str, Facts] | None = None,
) -> tuple[list[QuerySnapshot], list[str]]:
    """Return a snapshot of every query that has tables, and the names of those whose tables are of another meaning.

    ``published_us``: how far back from its newest time a query is published, None for all of it. ``before``: the rows
    of queries in the version before; the metrics of one that has none are all read.
    """
    made = [query for query in registered.values() if newest_version(layout.queries(query.name)) is not None]
    changed = [
        query.name for query in made if not is_of(layout.batch_manifests(query.name), query.definition())
    ]
    snapshots = [
        kind_of(query)
        .file("publish")
        .snapshot_of(layout, query, streams, published_us, (before or {}).get(query.name))
        for query in made
        if query.name not in changed
    ]
    return snapshots, changed

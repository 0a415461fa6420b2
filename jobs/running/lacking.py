"""Steps after ingest that have not been done of a stream, because their task failed or their DAG was paused.

An event of a stream's news starts them once. Where one of them has ended with less than the ledger holds, ingest sends
the event again, and asks for that here. What only a change helps counts as done: a rule that does not hold, a query
that is stopped, tables of another declaration.
"""

import logging
from collections.abc import Mapping
from typing import Any

from jobs.running.outcome import ALL_STREAMS
from jobs.running.scheduled import configured, error_text
from lakehouse.queries.kind import Query
from lakehouse.queries.runtime.batch_manifest import finished, is_behind, last_repair
from lakehouse.queries.runtime.failure import goes_on
from lakehouse.rollup.rollup import is_current
from lakehouse.serving.status import Contents, published_contents
from lakehouse.settings import Settings
from lakehouse.storage.corrections import read_corrections, unfinished
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.tables.rollup_table import read_marker

log = logging.getLogger(__name__)


def lacking(stream: str, params: Mapping[str, Any]) -> list[str]:
    """Return the DAG that lacks what is finished of a stream, and which stream or query of it; empty if none does.

    Cost: a look at the newest files of each table. A table that cannot be read is no fault of ingest: its own job says
    what is wrong with it.
    """
    settings = configured(params)
    try:
        return _lacking(settings, stream)
    except Exception as error:
        log.warning("%s: what lacks its news cannot be told: %s", stream, error_text(error))
        return []


def _lacking(settings: Settings, stream: str) -> list[str]:
    layout, batch = settings.layout, read_extent(settings.layout, stream).batch
    if not batch or not is_current(layout, settings.stream(stream)):
        return []
    corrections = read_corrections(layout, stream)
    if read_marker(layout.rollup(stream)).batch < batch or unfinished(corrections):
        return ["rollups", stream]
    readers = (query for query in settings.registered.values() if stream in query.streams)
    queries = [query for query in readers if goes_on(layout, query)]
    behind = [query.name for query in queries if is_behind(layout, query.name, query.streams, False, stream)]
    if behind:
        return ["queries", behind[0]]
    held = published_contents(layout)
    corrected_s = max((done.at.timestamp() for done in corrections), default=0)
    if held.streams.get(stream) != batch or held.published_us / 1e6 <= corrected_s:
        return _unpublished(settings, stream, batch)
    return [] if all(_holds(settings, query, held) for query in queries) else ["publish", ALL_STREAMS]


def _unpublished(settings: Settings, stream: str, batch: int) -> list[str]:
    """Return who lacks a stream that is not published: its checks, or the publish unless they have failed."""
    from quality.history import last_judged

    judged, has_passed = last_judged(settings.layout.quality, stream)
    if judged < batch:
        return ["quality", stream]
    return ["publish", ALL_STREAMS] if has_passed else []


def _holds(settings: Settings, query: Query, held: Contents) -> bool:
    """Return whether a version holds all finished batches and repairs of a query."""
    own = finished(settings.layout, query.name), last_repair(settings.layout, query.name)
    return own == (0, 0) or held.queries.get(query.name) == own

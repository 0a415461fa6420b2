"""The next batch of a registered query: the one that was begun, or a new one of what ingest has finished since."""

from collections.abc import Mapping

from lakehouse.queries.kind import Query
from lakehouse.queries.runtime.batch_manifest import (
    ONE,
    BatchManifest,
    Wanted,
    finished,
    last_manifest,
    last_retractions,
    next_scales,
    next_spans,
    waiting_retractions,
    write_manifest,
)
from lakehouse.queries.runtime.tasks.by_bucket import ROWS_A_PLACE
from lakehouse.spark import tables
from lakehouse.storage.corrections import waiting_revisions
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import Entry, read_ledger

# The last ingest batch of each stream.
Through = Mapping[str, int]
# The most rows that a batch holds in memory, unless one ingest batch has more.
MOST_ROWS = 2_000_000


def next_batch(
    layout: Home,
    query: Query,
    most_rows: int,
    through: Through | None = None,
    through_repair: int = 0,
    wanted: Wanted = ONE,
) -> BatchManifest | None:
    """Return the unfinished batch that was begun, or write the manifest of the next one; None if nothing is new.

    Before every stream has a raw table there can be no result, and no batch is begun; nor is one while results rest on
    retracted rows.

    A batch whose revisions are not carried out yet waits, and those behind it. ``through``: ingest batches that finish
    after these are left for later, so that several queries are planned alike. ``through_repair``: as in
    ``BatchManifest``, for a new batch; ``wanted``: its number of buckets.
    """
    if not all(tables.exists(layout.raw(stream)) for stream in query.streams):
        return None
    folder, done = layout.batch_manifests(query.name), finished(layout, query.name)
    last = last_manifest(folder, "batch", done)
    if last and last.number > done:
        return last
    taken = last.spans if last else tuple((0, 0) for _ in query.streams)
    known = [
        _readable(layout, stream, after, None if through is None else through[stream])
        for stream, (_, after) in zip(query.streams, taken, strict=True)
    ]
    spans, corrections = next_spans(taken, known, most_rows), last_retractions(layout, query.streams)
    # Rows that are read again under the names of retracted ones must not meet what still rests on these.
    if spans is None or (last and waiting_retractions(layout, query.name, query.streams)):
        return None
    taken_now = zip(known, spans, strict=True)
    rows = sum(entry.accepted for entries, (_, end) in taken_now for entry in entries if entry.batch <= end)
    scales = next_scales(last.scales if last else (), done + 1, wanted, 1 + rows // ROWS_A_PLACE)
    manifest = BatchManifest(done + 1, spans, through_repair, scales, corrections)
    write_manifest(folder, "batch", manifest)
    crash_point("queries.planned")
    return manifest


def _readable(layout: Home, stream: str, after: int, through: int | None) -> list[Entry]:
    """Return the batches after one before those of which raw still has rows that they revise."""
    known = read_ledger(layout, stream, after, through)
    # Looked for afterwards, so that no batch comes in between.
    waiting = waiting_revisions(layout, stream, is_done=True)
    return known if waiting is None else [each for each in known if each.batch < waiting[0]]

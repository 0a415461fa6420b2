"""Raw rows and landed files that a stream no longer keeps. Rows go in whole top nodes, once the rollup holds them.

    top level    [---------------)[---------------)[---------------)[-----
    raw rows                      xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                     dropped      cut      confirmed - keep_raw        confirmed

"Confirmed" is the newest time that batches before the last one have confirmed: a batch that moves it deletes nothing.

The cut is a whole node of the top level, so that what is kept is enough to build any whole node again. A row that
comes later than that is in the nodes all the same; it leaves raw with the next cut.

Landed files go when every stream that names them has read them whole, and they are older than each keeps them; nothing
goes unless a stream says ``keep_files``. What stays whatever it says: a file whose batch is not finished, one that is
not as it was when it was read, and one that could not be read to its end, as quarantine lacks its bytes.
"""

import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.config.durations import format_duration, format_timestamp
from lakehouse.config.landing import located
from lakehouse.config.stream import Stream
from lakehouse.corrections.corrections import begin, carry_out, count_before
from lakehouse.engine import Engine, Session, engine_of
from lakehouse.ingest.identities.identities import definition
from lakehouse.ingest.identities.remembered import oldest_end
from lakehouse.ingest.identities.stored_identities import index_before
from lakehouse.ingest.quarantine import partly_read
from lakehouse.ingest.sources.files import matching
from lakehouse.ingest.sources.landed_content import Landing, delete, landing_of
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.spark import tables
from lakehouse.storage.corrections import RETENTION, Correction, known_from, raw_from, read_corrections
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.stores.store_access import ObjectUnread, StoreUnavailable
from lakehouse.storage.tables.rollup_table import read_marker

log = logging.getLogger(__name__)


def drop_old_raw(spark: Session, layout: Home, stream: Stream) -> dict[str, int]:
    """Drop raw rows that the rollup contains and the stream keeps no longer; return how many.

    Rows of batches that the rollup lacks stay. Nothing is dropped while a batch was begun and is not finished: run
    again, it must find the same repeats. Identities of what goes are remembered as long as ``duplicates_within``, so
    that a repeat of it is still one. Whoever calls holds the leases of raw and rollup.
    """
    contained = read_marker(layout.rollup(stream.name))
    confirmed_us = read_extent(layout, stream.name, contained.batch - 1).confirmed_us
    finished, width = read_extent(layout, stream.name).batch, stream.levels[-1].width_us
    if stream.keep_raw is None or confirmed_us is None:
        return {"raw_dropped": 0}
    if ManifestStore(layout.manifests(stream.name)).last_batch > finished:
        return {"raw_dropped": 0}
    known = read_corrections(layout, stream.name)
    before = raw_from(known)
    # Where a shorter `keep_raw` was declared once, rows that are gone stay gone.
    cut = floor_to(width, confirmed_us - stream.keep_raw)
    cut = max(cut, before or cut)
    kept_us = _identities_from(stream, confirmed_us, cut)
    counted = count_before(engine_of(spark), layout, stream, cut, contained.batch, kept_us)
    batches, latest_us, forgotten_us = counted
    if not batches:
        return {"raw_dropped": 0}
    # All rows behind the last of them are there, wherever the cut is.
    cut = min(cut, floor_to(width, latest_us) + width)
    asked = _asked(stream, cut, contained.batch, batches)
    if stream.identity:
        ends = (known_from(known, definition(stream)), forgotten_us, oldest_end(layout, stream, kept_us))
        asked = replace(
            asked,
            identity=definition(stream),
            known_from_us=max((end for end in ends if end is not None), default=None),
        )
    carry_out(spark, layout, stream, begin(layout, stream, asked))
    if asked.known_from_us is not None:
        index_before(layout, stream, finished + 1).forget(asked.known_from_us, contained.batch)
    return {"raw_dropped": asked.rows}


def _identities_from(stream: Stream, newest_us: int, cut: int) -> int:
    """Return since when identities are kept: so long that every row from the time on that is asked for is checked.

    A row is checked against all that can be of its identity, which may be older by ``repeat_distance_us``.
    """
    wanted = floor_to(stream.levels[-1].width_us, newest_us - stream.duplicates_within)
    return min(cut, wanted) - stream.repeat_distance_us


def _asked(stream: Stream, cut: int, through: int, batches: dict[int, int]) -> Correction:
    return Correction(
        number=0,
        kind=RETENTION,
        done=False,
        by="maintain",
        why=f'keep_raw = "{format_duration(stream.keep_raw)}"',
        what=f"raw rows before {format_timestamp(cut)}",
        condition=f"event_us < {cut}",
        from_us=None,
        to_us=cut,
        through=through,
        rows=sum(batches.values()),
        batches=batches,
        at=datetime.now(UTC),
    )


def drop_old_files(engine: Engine, layout: Home, stream: Stream, streams: Iterable[Stream]) -> int:
    """Delete the landed files that a stream names and none of ``streams``, itself among them, needs; return how many.

    Whoever calls holds the lease of the stream's raw table. A file that may not be deleted is logged and stays.
    """
    if stream.source.keep_files is None:
        return 0
    gone = _named(stream)
    for each in streams:
        if gone:
            gone -= _needed(engine, layout, each)
    return sum(_is_deleted(path, landing_of(stream.source)) for path in sorted(gone))


def _named(stream: Stream) -> set[str]:
    return {located(stream.source.path, name) for name, _ in matching(stream.source)}


def _needed(engine: Engine, layout: Home, stream: Stream) -> set[str]:
    """Return the files that a stream names and has not read whole, or keeps still."""
    source = stream.source
    if source.keep_files is None or not tables.exists(layout.ledger(stream.name)):
        return _named(stream)
    found = list(matching(source))
    oldest = time.time_ns() - source.keep_files * 1000
    store = ManifestStore(layout.manifests(stream.name))
    read = store.read_as_they_are(found, read_extent(layout, stream.name).batch)
    read -= partly_read(engine, layout, stream)
    return {located(source.path, name) for name, seen in found if name not in read or seen.mtime_ns > oldest}


def _is_deleted(path: str, landing: Landing) -> bool:
    try:
        delete(path, landing)
    except (OSError, StoreUnavailable, ObjectUnread) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        log.warning("%s was read and is kept no longer, but cannot be deleted: %s", path, why)
        return False
    return True

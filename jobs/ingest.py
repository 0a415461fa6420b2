"""Ingest the new files or messages of one stream into raw, quarantine and ledger, exactly once.

New complete files, or unread messages of topics, are put into manifests. The manifests that the ledger does not hold
yet are ingested one by one, each as a batch. Safe to run again, and to kill anywhere.
"""

import logging
from collections.abc import Callable
from functools import cache, partial
from itertools import islice
from typing import Any

from pyspark.sql import SparkSession

from jobs.running.command import run_for
from lakehouse.config.landing import located
from lakehouse.corrections.corrections import writing
from lakehouse.corrections.retract import is_retracted
from lakehouse.engine import engine_of
from lakehouse.ingest.batch_records import Progress, StreamTables
from lakehouse.ingest.drain import drain, open_store
from lakehouse.ingest.quarantine import unread_in
from lakehouse.ingest.sources.kafka import Broker
from lakehouse.ingest.sources.manifest import Repeat
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.ingest.sources.unmatched import no_match, unlisted
from lakehouse.ingest.topics import Topics
from lakehouse.settings import Settings

log = logging.getLogger(__name__)
# Of what stands still, so many sentences are kept with the figures of a run.
_SHOWN = 10


def run(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
    """Ingest every complete landed file, or every message up to now; return the counts.

    Raises LeaseHeld if another process ingests this stream now, or writes it otherwise for longer than ``WAIT_S``;
    IngestRefused if manifests are missing that the
    ledger knows; OffsetsGone, TopicRecreated or BrokerFailed of a kafka source, as ``Topics.fix_unread``.
    """
    target = StreamTables(spark, settings.layout, settings.stream(stream))
    with writing(target, "ingest"):
        store, before = open_store(target)
        if target.stream.source.kind != "kafka":
            return _take_files(target, store, before)
        topics = Topics(Broker(target.stream.source), target.stream, store, before.batch)
        topics.fix_unread()
        return {**drain(target, store, before), "lag": topics.lag()}


def _take_files(target: StreamTables, store: ManifestStore, before: Progress) -> dict[str, Any]:
    source, name = target.stream.source, target.stream.name
    last = store.last_batch
    # Of one batch, once: many files of it may come again.
    unread = cache(partial(unread_in, engine_of(target.spark), target.layout, name))
    is_repeat = partial(_is_repeat, target, store, before.batch, unread)
    files = store.add_files(source, is_repeat, bool(target.stream.identity))
    totals = drain(target, store, before)
    repeats = [str(repeat) for manifest in store.behind(last) for repeat in manifest.repeats]
    standing = [*islice(unlisted(source), _SHOWN), *store.changed_files]
    if not store.matched and not store.last_batch and not standing:
        standing.append(no_match(source))
    for text in (*repeats, *standing):
        log.warning("stream %s: %s", name, text)
    counts = {"files": files, "changed_files": len(store.changed_files), "repeated_files": len(repeats)}
    return {**counts, **totals} | ({"standing": standing[:_SHOWN]} if standing else {})


def _is_repeat(
    target: StreamTables,
    store: ManifestStore,
    finished: int,
    unread: Callable[[int], set[str]],
    repeat: Repeat,
) -> bool:
    """True if a file would give the rows again that another one of its content gave: names may hold values, too."""
    source, layout, name = target.stream.source, target.layout, target.stream.name
    if repeat.batch > finished and not store.is_as_listed(repeat.read_as, source):
        return False
    paths = [located(source.path, name) for name in (repeat.file.path, repeat.read_as)]
    columns = [column for column in target.stream.columns.values() if column.file is not None]
    if any(len({column.from_file(path) for path in paths}) > 1 for column in columns):
        return False
    if is_retracted(layout, name, repeat):
        return False
    return repeat.batch > finished or repeat.read_as not in unread(repeat.batch)


main = partial(run_for, "stream", run)


if __name__ == "__main__":
    raise SystemExit(main())

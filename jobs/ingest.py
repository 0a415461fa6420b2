"""Ingest the new files or messages of one stream into raw, quarantine and ledger, exactly once.

New complete files, or unread messages of topics, are put into manifests. The manifests that the ledger does not hold
yet are ingested one by one, each as a batch. Safe to run again, and to kill anywhere.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from jobs.command import run_for_streams
from lakehouse.declare.settings import Settings
from lakehouse.streams.batch_records import Progress, StreamTables
from lakehouse.streams.drain import drain, open_store, writing
from lakehouse.streams.sources.kafka import Broker
from lakehouse.streams.sources.manifest_store import ManifestStore
from lakehouse.streams.topics import Topics

log = logging.getLogger(__name__)


def run(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
    """Ingest every complete landed file, or every message up to now; return the counts.

    Raises:
        LeaseHeld: if another process ingests this stream now.
        IngestRefused: if manifests are missing that the ledger knows.
        OffsetsGone, TopicRecreated, BrokerFailed: of a kafka source, as ``Topics.fix_unread``.
    """
    target = StreamTables(spark, settings.layout, settings.stream(stream))
    take = _take_messages if target.stream.source.kind == "kafka" else _take_files
    with writing(target):
        store, before = open_store(target)
        return take(target, store, before)


def _take_files(target: StreamTables, store: ManifestStore, before: Progress) -> dict[str, Any]:
    files = store.add_files(target.stream.source)
    totals = drain(target, store, before)
    for path in store.changed_files:
        log.warning("%s changed after it was read; its new content is not read: give it a new name", path)
    return {"files": files, "changed_files": len(store.changed_files), **totals}


def _take_messages(target: StreamTables, store: ManifestStore, before: Progress) -> dict[str, Any]:
    with Broker(target.spark, target.stream.source) as broker:
        topics = Topics(broker, target.stream, store, before.batch)
        topics.fix_unread()
        return {**drain(target, store, before), "lag": topics.lag()}


main = partial(run_for_streams, run)


if __name__ == "__main__":
    raise SystemExit(main())

"""Take what has landed for one stream into raw, quarantine and ledger, exactly once.

New complete files are fixed into manifests; Spark Structured Streaming reads the manifests one by one, each one an
ingest batch, and ends when there are none left (``availableNow``). Safe to run again, and to kill anywhere.
"""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.catalog.settings import Settings
from lakehouse.spark import tables
from lakehouse.spark.ingest import Batch, StreamTables
from lakehouse.spark.sources.files import Landing, Manifest

log = logging.getLogger(__name__)


class IngestRefused(RuntimeError):
    """The stream's own records of what was read do not fit together."""


def run(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
    """Ingest every complete file that has landed; return what was done.

    Raises:
        LeaseHeld: when another process ingests this stream now.
        IngestRefused: when manifests are missing that the ledger knows.
    """
    layout = settings.layout
    target = StreamTables(spark, layout, settings.stream(stream))
    with tables.lease(layout.raw(stream)):
        target.create()
        landing = _landing(target)
        files = landing.add_files(target.stream.source)
        totals = _drain(target)
    changed = landing.changed_files(target.stream.source)
    for path in changed:
        log.warning("%s changed after it was read; its new content is not read: give it a new name", path)
    return {"files": files, "changed_files": len(changed), **totals}


def requeue(settings: Settings, spark: SparkSession, stream: str, reasons: tuple[str, ...] = ()) -> dict[str, Any]:
    """Put open quarantined records (of these reasons, or all) through again, by today's configuration."""
    target = StreamTables(spark, settings.layout, settings.stream(stream))
    with tables.lease(settings.layout.raw(stream)):
        target.create()
        landing = _landing(target)
        _drain(target)
        landing.add_requeue(reasons)
        return _drain(target)


def _landing(target: StreamTables) -> Landing:
    landing = Landing(target.layout.landing(target.stream.name))
    finished, _ = target.finished()
    if finished > landing.last_batch:
        raise IngestRefused(
            f"stream {target.stream.name}: the ledger holds batch {finished}, {landing.folder} only "
            f"{landing.last_batch}: restore that folder; without it files would be read twice"
        )
    return landing


def _drain(target: StreamTables) -> dict[str, Any]:
    """Run every manifest that has no ledger row yet, in order."""
    totals: dict[str, Any] = {"batches": 0}
    landing = Landing(target.layout.landing(target.stream.name))
    if not landing.manifests:
        return totals

    def ingest_batch(manifests: DataFrame, _: int) -> None:
        for (text,) in manifests.collect():
            _ingest(target, landing, Manifest.from_json(text), totals)

    source = target.spark.readStream.format("text").option("wholetext", True).option("maxFilesPerTrigger", 1)
    # Spark would otherwise pass over files older than a week before the newest one.
    source = source.option("maxFileAge", "36500d").option("pathGlobFilter", "*.json")
    query = (
        source.load(str(landing.folder))
        .writeStream.foreachBatch(ingest_batch)
        .option("checkpointLocation", str(target.layout.checkpoint("ingest", target.stream.name)))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return totals


def _ingest(target: StreamTables, landing: Landing, manifest: Manifest, totals: dict[str, Any]) -> None:
    finished, newest = target.finished()
    if manifest.batch <= finished:
        return
    if manifest.batch != finished + 1:
        raise IngestRefused(f"stream {target.stream.name}: batch {manifest.batch} came after batch {finished}")
    batch = Batch(target, manifest, landing, newest)
    try:
        counts = batch.commit()
    finally:
        batch.release()
    totals["batches"] += 1
    for name, count in counts.items():
        totals[name] = totals.get(name, 0) + count

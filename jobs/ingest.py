"""Take what has landed for one stream into raw, quarantine and ledger, exactly once.

New complete files are fixed into manifests; Spark Structured Streaming reads the manifests one by one, each one an
ingest batch, and ends when there are none left (``availableNow``). Safe to run again, and to kill anywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from jobs.command import run_for_streams
from lakehouse.catalog.settings import Settings
from lakehouse.spark import corrections, tables
from lakehouse.spark.ingest import COUNTS, Batch, Progress, StreamTables
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
        corrections.finish_open(spark, settings.layout, target.stream, also=settings.layout.rollup(stream))
        landing, before = _landing(target)
        files = landing.add_files(target.stream.source)
        totals = _drain(target, landing, before)
    for manifest in landing.manifests[before.batch :]:
        for change in manifest.schema_changes:
            log.warning("stream %s, batch %s: %s", stream, manifest.batch, change)
    changed = landing.changed_files(target.stream.source)
    for path in changed:
        log.warning("%s changed after it was read; its new content is not read: give it a new name", path)
    return {"files": files, "changed_files": len(changed), **totals}


def requeue(
    settings: Settings, spark: SparkSession, stream: str, reasons: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Put open quarantined records (of these reasons, or all) through again, by today's configuration."""
    target = StreamTables(spark, settings.layout, settings.stream(stream))
    with tables.lease(settings.layout.raw(stream)):
        corrections.finish_open(spark, settings.layout, target.stream, also=settings.layout.rollup(stream))
        landing, before = _landing(target)
        if landing.last_batch > before.batch:
            _drain(target, landing, before)
            before = target.progress()
        landing.add_requeue(reasons)
        return _drain(target, landing, before)


def _landing(target: StreamTables) -> tuple[Landing, Progress]:
    landing = Landing(target.layout.landing(target.stream.name))
    before = Progress(0, None) if target.create() else target.progress()
    if before.batch > landing.last_batch:
        raise IngestRefused(
            f"stream {target.stream.name}: the ledger holds batch {before.batch}, {landing.folder} only "
            f"{landing.last_batch}: restore that folder; without it files would be read twice"
        )
    return landing, before


def _drain(target: StreamTables, landing: Landing, before: Progress) -> dict[str, Any]:
    """Run every manifest that has no ledger row yet, in order."""
    totals: dict[str, Any] = {"batches": 0, **dict.fromkeys(COUNTS, 0), "schema_changes": 0}
    if landing.last_batch == before.batch:
        return totals
    run = _Run(target, landing, totals, before)
    source = target.spark.readStream.format("text").option("wholetext", True).option("maxFilesPerTrigger", 1)
    # Spark would otherwise pass over files older than a week before the newest one.
    source = source.option("maxFileAge", "36500d").option("pathGlobFilter", "*.json")
    query = (
        source.load(str(landing.folder))
        .writeStream.foreachBatch(run.ingest_batch)
        .option("checkpointLocation", str(target.layout.checkpoint("ingest", target.stream.name)))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException:
        # Spark's error quotes ours inside a page of its own plan: raise ours.
        raise run.error or RuntimeError(f"the stream of {target.stream.name} stopped") from run.error
    return totals


@dataclass
class _Run:
    """One drain: the batches it has finished, and what they add up to."""

    target: StreamTables
    landing: Landing
    totals: dict[str, Any]
    finished: Progress
    error: Exception | None = None

    def ingest_batch(self, manifests: DataFrame, _: int) -> None:
        """Take in the manifests of one micro-batch; those already in the ledger are passed over."""
        try:
            for (text,) in manifests.collect():
                manifest = Manifest.from_json(text)
                if manifest.batch > self.finished.batch:
                    self._ingest(manifest)
        except Exception as error:
            self.error = error
            raise

    def _ingest(self, manifest: Manifest) -> None:
        if manifest.batch != self.finished.batch + 1:
            name = self.target.stream.name
            raise IngestRefused(
                f"stream {name}: batch {manifest.batch} came after batch {self.finished.batch}"
            )
        entry = Batch(self.target, manifest, self.landing, self.finished).commit()
        self.finished = Progress(manifest.batch, entry["newest_us"])
        self.totals["batches"] += 1
        self.totals["schema_changes"] += len(entry["schema_changes"])
        for name in COUNTS:
            self.totals[name] += entry[name]


def main(argv: Sequence[str] | None = None) -> int:
    """Run for the streams named on the command line."""
    return run_for_streams(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())

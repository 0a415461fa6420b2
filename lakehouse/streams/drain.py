"""A stream's manifests, one by one, each one an ingest batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakehouse.spark import tables
from lakehouse.streams import corrections
from lakehouse.streams.batch_records import BatchRecords, Progress, StreamTables
from lakehouse.streams.failed_batch import commit_or_split
from lakehouse.streams.ingest import COUNTS
from lakehouse.streams.sources.manifest_store import ManifestStore


class IngestRefused(RuntimeError):
    """The stream's own records of what was read do not fit together."""


@contextmanager
def writing(target: StreamTables, timeout_s: float = 0) -> Iterator[None]:
    """Be the one writer of a stream's tables; a correction that was begun is finished first."""
    layout, stream = target.layout, target.stream
    with tables.lease(layout.raw(stream.name), timeout_s):
        corrections.finish_open(target.spark, layout, stream, also=layout.rollup(stream.name))
        yield


def open_store(target: StreamTables) -> tuple[ManifestStore, Progress]:
    """Return a stream's manifests and how far its ledger is; its tables are created when there are none."""
    store = ManifestStore(target.layout.manifests(target.stream.name))
    before = Progress(0, None) if target.create() else target.progress()
    if before.batch > store.last_batch:
        raise IngestRefused(
            f"stream {target.stream.name}: the ledger holds batch {before.batch}, {store.folder} only "
            f"{store.last_batch}: restore that folder; without it files would be read twice"
        )
    if (missing := store.missing) is not None:
        raise IngestRefused(
            f"stream {target.stream.name}: the manifest of batch {missing} is in {store.folder} neither as a file of "
            "its own nor folded: restore that folder; without it files would be read twice"
        )
    return store, before


def drain(target: StreamTables, store: ManifestStore, before: Progress) -> dict[str, Any]:
    """Run every manifest that has no ledger row yet, in order; what fails again and again is set aside."""
    totals: dict[str, Any] = {"batches": 0, **dict.fromkeys(COUNTS, 0), "schema_changes": 0}
    finished = before
    store.close_set_aside(finished.batch)
    while waiting := store.behind(finished.batch):
        manifest = waiting[0]
        if manifest.batch != finished.batch + 1:
            raise IngestRefused(
                f"stream {target.stream.name}: batch {manifest.batch} came after batch {finished.batch}"
            )
        entry = commit_or_split(BatchRecords(target, manifest, store, finished))
        if entry is None:
            continue
        finished = Progress(manifest.batch, entry["newest_us"])
        store.close_set_aside(finished.batch)
        totals["batches"] += 1
        totals["schema_changes"] += len(entry["schema_changes"])
        for name in COUNTS:
            totals[name] += entry[name]
    return totals

"""A stream's manifests, one by one, each one an ingest batch; one that fails again and again is halved.

    tried _TRIES times -> split: two manifests behind it hold its halves, each tried once -> ... -> set aside

Halves are batches like others, so what is not the culprit is taken in on the way, until the file or offset that is
stands alone. A batch that is split or set aside stays in the ledger, with no rows; what it had appended is removed.
Failures of what is around it do not count.
"""

import logging
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from lakehouse.config.problems import Permanent
from lakehouse.ingest.batch_records import BatchRecords, Progress, StreamTables
from lakehouse.ingest.ingest import COUNTS, commit, writer_of
from lakehouse.ingest.sources.kafka import BrokerFailed, without_secrets
from lakehouse.ingest.sources.landed_content import AROUND
from lakehouse.ingest.sources.manifest import SET_ASIDE, SPLIT, halves
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.ingest.sources.object_store import unavailable_in
from lakehouse.ingest.topics import why_unread
from lakehouse.spark import tables
from lakehouse.spark.session import is_running
from lakehouse.storage.attempts import Attempts, begin_attempt, end_attempt, read_attempts
from lakehouse.storage.control.database import ControlUnreachable
from lakehouse.storage.control.lease import WAIT_S, LeaseHeld, lease
from lakehouse.storage.control.outcomes import error_text
from lakehouse.storage.control.session import LeaseLost
from lakehouse.storage.damaged import DamagedFile
from lakehouse.storage.stores.store_access import StoreUnavailable
from lakehouse.storage.tables.integrity import why_failed

log = logging.getLogger(__name__)
_TRIES = 3
# Of many changes of columns a run shows the first.
_SHOWN = 5
_LONGEST_ERROR = 1000
_SAID_AROUND = (
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Too many open files",
)


class IngestRefused(Permanent, RuntimeError):
    """The stream's own records of what was read do not fit together."""


def open_store(target: StreamTables) -> tuple[ManifestStore, Progress]:
    """Return a stream's manifests and how far its ledger is; its tables are created when there are none."""
    store = ManifestStore(target.layout.manifests(target.stream.name))
    before = Progress(0, None) if target.create() else target.progress()
    if before.batch > store.last_batch:
        raise IngestRefused(
            f"stream {target.stream.name}: the ledger holds batch {before.batch}, the control store manifests only up "
            f"to {store.last_batch}: restore it from a copy of the home; without it files would be read twice"
        )
    return store, before


def open_finished(target: StreamTables) -> tuple[ManifestStore, Progress]:
    """Return the same as ``open_store`` once every batch that has a manifest is in the ledger."""
    store, before = open_store(target)
    if store.last_batch > before.batch:
        drain(target, store, before)
        before = target.progress()
    return store, before


def drain(target: StreamTables, store: ManifestStore, before: Progress) -> dict[str, Any]:
    """Run every manifest that has no ledger row yet, in order; what fails again and again is set aside."""
    totals: dict[str, Any] = {"batches": 0, **dict.fromkeys(COUNTS, 0), "schema_changes": 0}
    missing, changes = Counter[str](), list[str]()
    finished = before
    store.close_set_aside(finished.batch)
    while waiting := store.behind(finished.batch):
        manifest = waiting[0]
        if manifest.batch != finished.batch + 1:
            raise IngestRefused(
                f"stream {target.stream.name}: batch {manifest.batch} came after batch {finished.batch}"
            )
        entry = _commit_or_split(BatchRecords(target, manifest, store, finished))
        if entry is None:
            continue
        finished = Progress.after(entry)
        store.close_set_aside(finished.batch)
        totals["batches"] += 1
        totals["schema_changes"] += len(entry["schema_changes"])
        for change in entry["schema_changes"]:
            log.warning("stream %s, batch %d: %s", target.stream.name, manifest.batch, change)
        changes += entry["schema_changes"][: _SHOWN - len(changes)]
        missing.update(entry["missing"])
        for name in COUNTS:
            totals[name] += entry[name]
    return totals | {"missing": {name: count for name, count in missing.items() if count}, "changes": changes}


def _commit_or_split(records: BatchRecords) -> dict[str, Any] | None:
    """Take a batch in and return its ledger row; None where it failed too often: another manifest has its number then.

    Raises Exception: what the batch failed with, while it has attempts left.
    """
    manifest, target = records.manifest, records.tables
    if manifest.kind not in ("files", "kafka", "requeue") or not is_running(target.spark):
        return commit(records)
    attempts = _ended(records)
    if attempts.failed < _tries(records):
        with ExitStack() as held:
            if attempts.failed or manifest.is_part:
                # It may end this process: whoever else is suspected waits, so that its death is not laid at their door.
                held.enter_context(lease(target.layout, target.layout.attempts("suspects"), WAIT_S))
            begin_attempt(target.layout, target.stream.name, attempts)
            ended = _tried(records, attempts)
        if not isinstance(ended, Attempts):
            return ended
        attempts = ended
    _split(records, attempts)
    return None


def _tries(records: BatchRecords) -> int:
    return 1 if records.manifest.is_part else _TRIES


def _ended(records: BatchRecords) -> Attempts:
    """Return the attempts at the batch; none count that came less far."""
    target, batch = records.tables, records.manifest.batch
    found = read_attempts(target.layout, target.stream.name, batch)
    if not found.failed:
        return found
    layout, name = target.layout, target.stream.name
    appended = (layout.raw(name), layout.quarantine(name), layout.profile(name))
    steps = sum(tables.is_appended(table, writer_of(name), batch) for table in appended)
    return found if steps == found.steps else replace(found, steps=steps, failed=1)


def _tried(records: BatchRecords, before: Attempts) -> dict[str, Any] | Attempts:
    """Return the ledger row of a batch, or its attempts where this was the last that it had."""
    target = records.tables
    name = target.stream.name
    try:
        return commit(records)
    except Exception as error:
        failure = _why(records, error)
        counts = not _is_around(records, error, failure)
    except BaseException:
        end_attempt(target.layout, name, before, None)
        raise
    text = _text_of(failure)[:_LONGEST_ERROR] if counts else None
    after = end_attempt(target.layout, name, before, text)
    if text is None or after.failed < _tries(records) or not is_running(target.spark):
        raise failure
    return after


def _text_of(failure: Exception) -> str:
    """Return an error's text without the notes that tell which task it was in."""
    return error_text(failure).removesuffix("\n".join(["", *getattr(failure, "__notes__", ())]))


def _why(records: BatchRecords, error: Exception) -> Exception:
    if records.manifest.kind != "kafka":
        return unavailable_in(error) or error
    target = records.tables
    return why_unread(error, target.stream, records.store, records.before.batch)


def _is_around(records: BatchRecords, error: Exception, failure: Exception) -> bool:
    """True if a batch failed for what is around it: a broker, a disk, another writer, a damaged file of the home."""
    if records.manifest.kind == "kafka":
        said = without_secrets(str(error), records.stream.source)
        if isinstance(error, BrokerFailed) or str(failure) != said:
            return True
    is_lacking = isinstance(error, OSError) and error.errno in AROUND
    is_other = isinstance(failure, LeaseHeld | LeaseLost | ControlUnreachable | StoreUnavailable)
    if is_lacking or is_other or any(said in str(error) for said in _SAID_AROUND):
        return True
    layout, name = records.tables.layout, records.stream.name
    own = (layout.raw(name), layout.quarantine(name), layout.ledger(name))
    return isinstance(why_failed(error, own), DamagedFile)


def _split(records: BatchRecords, attempts: Attempts) -> None:
    """Put the halves of a batch behind it; one that cannot be halved is set aside."""
    manifest, store = records.manifest, records.store
    parts = halves(manifest)
    what = ", ".join([f.path for f in manifest.files][:3] + [str(each) for each in manifest.ranges][:3])
    where = f"stream {records.stream.name}, batch {manifest.batch} ({what or 'requeued records'})"
    if parts:
        log.warning("%s failed and is halved: %s", where, attempts.error)
        begins = tuple(replace(each, end=each.start) for each in manifest.ranges)
        store.put_in_place(
            replace(manifest, kind=SPLIT, files=(), ranges=begins, error=attempts.error), *parts
        )
    else:
        log.error(
            "%s failed and is set aside; `tidemark requeue %s` takes it in again: %s",
            *(where, records.stream.name, attempts.error),
        )
        store.put_in_place(replace(manifest, kind=SET_ASIDE, reasons=(), error=attempts.error))

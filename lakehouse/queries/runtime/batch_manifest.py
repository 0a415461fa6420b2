"""Manifests of a query's batches and repairs: what each reads, written first, so that a killed one runs again alike.

batch     the first and last ingest batch of each stream; the last repair known; scales
repair    the first and last batch of the query

The scales say how many buckets a query's rows are divided into, and from which batch on:

    a row     is in bucket  hash(its key) % buckets
    a bucket  of a new scale takes its rows from those old ones that leave the same remainder by the common divisor

After a change a bucket reads only those old buckets: if the number doubles, each reads one. A manifest contains all
scales so far, so a batch that runs again is divided as before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from lakehouse.config.problems import Permanent
from lakehouse.storage.control.manifests import Manifests, Row
from lakehouse.storage.damaged import RESTORE
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import Entry, read_extent
from lakehouse.storage.tables.table_log import bounds

# The initial number of buckets, unless the configuration sets it.
LEAST = 8
Kind = Literal["batch", "repair"]
Span = tuple[int, int]


@dataclass(frozen=True)
class Scale:
    """From batch ``since`` on, rows are divided into this many buckets."""

    since: int
    buckets: int


Scales = tuple[Scale, ...]


@dataclass(frozen=True)
class Wanted:
    """The number of buckets that batches should have: ``exactly`` this many, or enough for cores and memory of tasks.

    ``least``: how many the first batch has. ``cores`` is asked only if a batch has rows for more tasks than there are
    buckets, because one task runs several buckets of a small batch. The number never
    shrinks: machines and executors come and go, and each change writes the state anew once. ``divides_rows``: more
    buckets mean fewer rows in each.
    """

    exactly: int | None = None
    cores: Callable[[], int] = lambda: 1
    least: int = LEAST
    divides_rows: bool = True

    def after(self, now: int | None, tasks: int) -> int:
        """Return the number of buckets after ``now``, None before the first batch, for rows for so many tasks."""
        if self.exactly is not None:
            return self.exactly
        # A power of two, so that after an increase each bucket takes its rows from one old bucket.
        known = now or self.least
        enough = 1 << (min(tasks, self.cores()) - 1).bit_length() if tasks > known else 0
        return self.divided(max(known, enough), tasks)

    def divided(self, buckets: int, tasks: int) -> int:
        """Return a number of buckets, doubled until each has the rows of two tasks at most, if keys are even."""
        parts = -(-(tasks // 2) // buckets) if self.divides_rows else 1
        return buckets << max(parts - 1, 0).bit_length()


# For a kind without buckets, and for a query in which all rows must meet.
ONE = Wanted(1, divides_rows=False)


def next_scales(scales: Scales, batch: int, wanted: Wanted, tasks: int = 1) -> Scales:
    """Return the scales up to a new batch, which has rows for so many tasks."""
    now = scales[-1].buckets if scales else None
    buckets = wanted.after(now, tasks)
    return scales if buckets == now else (*scales, Scale(batch if scales else 1, buckets))


def changes_at(scales: Scales, batch: int) -> bool:
    """Return whether a batch is the first of its scale, and others came before."""
    return len(scales) > 1 and scales[-1].since == batch


def origin(bucket: int, scales: Scales, batch: int) -> int:
    """Return the bucket at an earlier batch whose knowledge a bucket of the last scale continues with."""
    for scale in reversed(scales):
        bucket %= scale.buckets
        if scale.since <= batch:
            break
    return bucket


class ManifestMissing(Permanent, RuntimeError):
    """A manifest that later batches depend on is missing."""


@dataclass(frozen=True)
class BatchManifest:
    """The ``number``-th batch or repair; each span is ``(after, through)``: it reads from number after + 1 on.

    ``through_repair``: the batch uses what the repairs up to this one found. ``scales``: the number of buckets of
    this batch and of those before it.
    """

    number: int
    spans: tuple[Span, ...]
    through_repair: int = 0
    scales: Scales = ()

    @property
    def buckets(self) -> int:
        """The number of buckets of the batch; 1 if its kind has none."""
        return self.scales[-1].buckets if self.scales else 1


def last_manifest(folder: Path, kind: Kind, finished: int) -> BatchManifest | None:
    """Return the manifest that was begun and is not finished, else the last finished one; None before the first.

    Raises:
        ManifestMissing: if the last finished one is missing.
    """
    begun = read_manifest(folder, kind, finished + 1)
    return begun or (require_manifest(folder, kind, finished) if finished else None)


def require_manifest(folder: Path, kind: Kind, number: int) -> BatchManifest:
    """Return a manifest that must exist.

    Raises:
        ManifestMissing: if it does not.
    """
    return require_manifests(folder, kind, number - 1, number)[0]


def require_manifests(folder: Path, kind: Kind, after: int, through: int) -> list[BatchManifest]:
    """Return the manifests behind a number, up to and with another, which must all exist.

    Raises:
        ManifestMissing: if one does not.
    """
    found = [_read(row) for row in _of(folder, kind).between(after, through)] if through > after else []
    missing = set(range(after + 1, through + 1)) - {manifest.number for manifest in found}
    if missing:
        raise ManifestMissing(
            f"{kind} manifest {min(missing)} of query {folder.name} is not in the control store: {RESTORE}, or start "
            f"over with `tidemark queries --forget {folder.name}`"
        )
    return found


def read_manifest(folder: Path, kind: Kind, number: int) -> BatchManifest | None:
    """Return a manifest, or None if it does not exist. Cost: that of one, however many there are."""
    row = _of(folder, kind).read(number)
    return None if row is None else _read(row)


def last_planned(folder: Path) -> int:
    """Return the number of a query's last batch that has a manifest, 0 for none."""
    return _of(folder, "batch").last()


def write_manifest(folder: Path, kind: Kind, manifest: BatchManifest) -> None:
    """Write a new manifest.

    Raises:
        FileExistsError: if another machine has written one of this number.
    """
    _of(folder, kind).add(Row(manifest.number, kind, json.dumps(asdict(manifest))))


def _of(folder: Path, kind: Kind) -> Manifests:
    return Manifests(folder, kind, f"{RESTORE}, or start over with `tidemark queries --forget {folder.name}`")


def _read(row: Row) -> BatchManifest:
    one = json.loads(row.body)
    return BatchManifest(
        one["number"],
        tuple((low, high) for low, high in one["spans"]),
        one["through_repair"],
        tuple(Scale(**each) for each in one["scales"]),
    )


def next_spans(
    taken: Sequence[Span], ledgers: Sequence[Sequence[Entry]], most_rows: int
) -> tuple[Span, ...] | None:
    """Return the next ingest batches of each stream, or None if there are none.

    ``taken`` are the last spans. An ingest batch is never divided: each stream gives at least one, then as many as
    have at most ``most_rows`` accepted rows together.
    """
    spans = []
    for (_, last), entries in zip(taken, ledgers, strict=True):
        through, rows = last, 0
        for entry in entries:
            if entry.batch <= last:
                continue
            rows += entry.accepted
            if rows > most_rows and through > last:
                break
            through = entry.batch
        spans.append((last, through))
    return tuple(spans) if any(low < high for low, high in spans) else None


def finished(layout: Home, query: str) -> int:
    """Return the number of a query's last finished batch, 0 for none."""
    return _largest(layout.queries(query), "batch")


def repaired(layout: Home, query: str) -> int:
    """Return the last batch up to which a query is repaired, 0 for none."""
    return _largest(layout.repairs(query), "through")


def last_repair(layout: Home, query: str) -> int:
    """Return the number of a query's last finished repair, 0 for none."""
    return _largest(layout.repairs(query), "repair")


def is_behind(layout: Home, query: str, streams: Sequence[str], is_repaired: bool = True) -> bool:
    """Return whether a query has ingest batches to read or batches to repair, so that raw rows must stay.

    Without ``is_repaired``, the kind has no repair, and only unfinished batches count.
    """
    last = finished(layout, query)
    manifest = last_manifest(layout.batch_manifests(query), "batch", last)
    taken = manifest.spans if manifest else tuple((0, 0) for _ in streams)
    lasts = [read_extent(layout, stream).batch for stream in streams]
    if any(through < newest for (_, through), newest in zip(taken, lasts, strict=True)):
        return True
    done = repaired(layout, query) if is_repaired else last
    return manifest is not None and done < manifest.number


def _largest(table: Path, number: str) -> int:
    [(_, largest)] = bounds(table, (number,))
    return largest or 0

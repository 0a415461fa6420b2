"""Manifests of a query's batches and repairs: what each reads, written first, so that a killed one runs again alike.

batch     the first and last ingest batch of each stream; the last repair known; scales
repair    the first and last batch of the query; or the retraction whose rows it withdraws from the results

The scales say how many buckets a query's rows are divided into, and from which batch on:

    a row     is in bucket  hash(its key) % buckets
    a bucket  of a new scale takes its rows from those old ones that leave the same remainder by the common divisor

After a change a bucket reads only those old buckets: if the number doubles, each reads one. A manifest contains all
scales so far, so a batch that runs again is divided as before.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from lakehouse.config.problems import Permanent
from lakehouse.queries.kind import Query
from lakehouse.storage.control.manifests import Manifests, Row
from lakehouse.storage.corrections import TAKEN_OUT, Correction, read_corrections
from lakehouse.storage.damaged import RESTORE
from lakehouse.storage.doubtful import Doubt, counted, doubts_of
from lakehouse.storage.layout import Home, Part
from lakehouse.storage.ledger import Entry, read_extent
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import bounds

# The initial number of buckets, unless the configuration sets it.
LEAST = 8
Kind = Literal["batch", "repair"]
Span = tuple[int, int]
# A stream, and the number of its correction.
Retraction = tuple[str, int]


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
    this batch and of those before it. ``corrections``: by side, the last correction of its stream up to which neither
    results nor state rest on retracted rows. ``retraction``: a repair withdraws what rests on the rows of this
    correction of a stream: ``withdrawn`` results, by what had found them.
    """

    number: int
    spans: tuple[Span, ...]
    through_repair: int = 0
    scales: Scales = ()
    corrections: tuple[int, ...] = ()
    retraction: Retraction | None = None
    withdrawn: Mapping[str, int] = field(default_factory=dict)

    @property
    def buckets(self) -> int:
        """The number of buckets of the batch; 1 if its kind has none."""
        return self.scales[-1].buckets if self.scales else 1


def last_manifest(part: Part, kind: Kind, finished: int) -> BatchManifest | None:
    """Return the manifest that was begun and is not finished, else the last finished one; None before the first.

    Raises ManifestMissing if the last finished one is missing.
    """
    begun = read_manifest(part, kind, finished + 1)
    return begun or (require_manifest(part, kind, finished) if finished else None)


def require_manifest(part: Part, kind: Kind, number: int) -> BatchManifest:
    """Return a manifest that must exist. Raises ManifestMissing if it does not."""
    return require_manifests(part, kind, number - 1, number)[0]


def require_manifests(part: Part, kind: Kind, after: int, through: int) -> list[BatchManifest]:
    """Return the manifests behind a number, up to and with another, which must all exist.

    Raises ManifestMissing if one does not.
    """
    found = [_read(row) for row in _of(part, kind).between(after, through)] if through > after else []
    missing = set(range(after + 1, through + 1)) - {manifest.number for manifest in found}
    if missing:
        raise ManifestMissing(
            f"{kind} manifest {min(missing)} of query {part.name} is not in the control store: {RESTORE}, or start "
            f"over with `tidemark queries --forget {part.name}`"
        )
    return found


def read_manifest(part: Part, kind: Kind, number: int) -> BatchManifest | None:
    """Return a manifest, or None if it does not exist. Cost: that of one, however many there are."""
    row = _of(part, kind).read(number)
    return None if row is None else _read(row)


def last_planned(part: Part) -> int:
    """Return the number of a query's last batch that has a manifest, 0 for none."""
    return _of(part, "batch").last()


def write_manifest(part: Part, kind: Kind, manifest: BatchManifest) -> None:
    """Write a new manifest. Raises FileExistsError if another machine has written one of this number."""
    _of(part, kind).add(Row(manifest.number, kind, json.dumps(asdict(manifest))))


def _of(part: Part, kind: Kind) -> Manifests:
    return Manifests(part, kind, f"{RESTORE}, or start over with `tidemark queries --forget {part.name}`")


def _read(row: Row) -> BatchManifest:
    one = json.loads(row.body)
    return BatchManifest(
        one["number"],
        tuple((low, high) for low, high in one["spans"]),
        one["through_repair"],
        tuple(Scale(**each) for each in one["scales"]),
        tuple(one["corrections"]),
        tuple(one["retraction"]) if one["retraction"] else None,
        one["withdrawn"],
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


def retractions(layout: Home, stream: str, after: int) -> list[Correction]:
    """Return the retractions of a stream that are done and come after a correction, in order."""
    known = read_corrections(layout, stream)
    return [each for each in known if each.kind in TAKEN_OUT and each.done and each.number > after]


def last_retractions(layout: Home, streams: Sequence[str]) -> tuple[int, ...]:
    """Return by side the number of the last retraction of its stream that is done, 0 for none."""
    found = (retractions(layout, stream, 0) for stream in streams)
    return tuple(own[-1].number if own else 0 for own in found)


def reflected(layout: Home, query: str) -> tuple[int, ...] | None:
    """Return by side up to which correction nothing rests on retracted rows; None before the first batch is planned."""
    folder = layout.batch_manifests(query)
    batch = last_manifest(folder, "batch", finished(layout, query))
    repair = read_manifest(folder, "repair", last_repair(layout, query))
    if batch is None:
        return None
    if repair is None:
        return batch.corrections
    return tuple(map(max, batch.corrections, repair.corrections))


def waiting_retractions(layout: Home, query: str, streams: Sequence[str]) -> list[tuple[str, Correction]]:
    """Return the retractions on whose rows a query may still rest, each with its stream."""
    if not any(last_retractions(layout, streams)):
        return []
    known = dict(zip(streams, reflected(layout, query) or (), strict=False))
    return [(stream, own) for stream, after in known.items() for own in retractions(layout, stream, after)]


def doubts_about(layout: Home, query: Query, since_us: int | None) -> list[Doubt]:
    """Return why what a query found at a time or later is not sure: rows of its streams, and retractions."""
    waiting = waiting_retractions(layout, query.name, query.streams)
    says = "may be in results until the next run or repair of the query"
    return doubts_of(layout, query.streams, since_us) + [
        Doubt(
            own.from_us or 0, f"{counted(own.rows)} of {stream} that correction {own.number} retracted {says}"
        )
        for stream, own in waiting
        if since_us is None or (own.to_us or 0) > since_us
    ]


def is_behind(
    layout: Home, query: str, streams: Sequence[str], is_repaired: bool = True, of: str | None = None
) -> bool:
    """Return whether a query has ingest batches to read or batches to repair, so that raw rows must stay.

    So they must while its results rest on retracted rows, as answers are recomputed from raw.

    Without ``is_repaired``, the kind has no repair, and only unfinished batches count; with ``of``, only those of one
    of its streams.
    """
    last = finished(layout, query)
    manifest = last_manifest(layout.batch_manifests(query), "batch", last)
    taken = manifest.spans if manifest else tuple((0, 0) for _ in streams)
    lasts = [read_extent(layout, stream).batch for stream in streams]
    reached = zip(streams, taken, lasts, strict=True)
    if any(through < newest for name, (_, through), newest in reached if of in (None, name)):
        return True
    if any(of in (None, name) for name, _ in waiting_retractions(layout, query, streams)):
        return True
    done = repaired(layout, query) if is_repaired else last
    return manifest is not None and done < manifest.number


def _largest(table: Location, number: str) -> int:
    [(_, largest)] = bounds(table, (number,))
    return largest or 0

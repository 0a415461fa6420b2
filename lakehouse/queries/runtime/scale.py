"""The number of buckets that a query's rows are divided into, and from which batch on.

    a row     is in bucket  hash(its key) % buckets
    a bucket  of a new scale takes its rows from those old ones that leave the same remainder by the common divisor

After a change a bucket reads only those old buckets: if the number doubles, each reads one. Manifests of batches
contain all scales so far, so a batch that runs again is divided as before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# The initial number, unless the configuration sets it.
LEAST = 8


@dataclass(frozen=True)
class Scale:
    """From batch ``since`` on, rows are divided into this many buckets."""

    since: int
    buckets: int


Scales = tuple[Scale, ...]


@dataclass(frozen=True)
class Wanted:
    """The number of buckets that batches should have: ``exactly`` this many, or enough for the cores that tasks run on.

    ``cores`` is asked only when tasks make a batch, because the process that handles small ones runs buckets one by
    one. A number that follows cores never shrinks: machines and executors come and go, and each change writes the
    state anew once.
    """

    exactly: int | None = None
    cores: Callable[[], int] = lambda: 1

    def after(self, now: int | None, by_tasks: bool) -> int:
        """Return the number of buckets after ``now``, which is None before the first batch."""
        if self.exactly is not None:
            return self.exactly
        # A power of two, so that after an increase each bucket takes its rows from one old bucket.
        enough = 1 << (self.cores() - 1).bit_length() if by_tasks else 0
        return max(now or LEAST, enough)


# For a kind without buckets, and for a query in which all rows must meet.
ONE = Wanted(1)


def next_scales(scales: Scales, batch: int, wanted: Wanted, by_tasks: bool = False) -> Scales:
    """Return the scales up to a new batch; ``by_tasks``: whether Spark tasks make it."""
    now = scales[-1].buckets if scales else None
    buckets = wanted.after(now, by_tasks)
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

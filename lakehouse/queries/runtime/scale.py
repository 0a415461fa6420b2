"""In how many buckets a query's rows are cut, from which batch on.

    a row     is in bucket  hash(its key) % buckets
    a bucket  of a new scale takes its rows from those old ones that leave the same remainder by the common divisor

So a change reads old buckets, and knows of the others nothing: twice as many buckets take each from one. Manifests of
batches say all scales so far; a batch that is made again is cut as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# What a query begins with, unless the configuration says how many.
LEAST = 8


@dataclass(frozen=True)
class Scale:
    """From batch ``since`` on rows are cut into so many buckets."""

    since: int
    buckets: int


Scales = tuple[Scale, ...]


@dataclass(frozen=True)
class Wanted:
    """How many buckets batches are to be cut into: ``exactly`` so many, or enough for the cores that tasks run on.

    ``cores`` is asked where tasks make a batch, for the process that takes small ones on runs buckets one by one. What
    follows cores never shrinks: machines and executors come and go, and each change writes the state anew once.
    """

    exactly: int | None = None
    cores: Callable[[], int] = lambda: 1

    def after(self, now: int | None, by_tasks: bool) -> int:
        """Return the number of buckets after ``now``, which is None before the first batch."""
        if self.exactly is not None:
            return self.exactly
        # A power of two, so that each bucket of more takes its rows from one.
        enough = 1 << (self.cores() - 1).bit_length() if by_tasks else 0
        return max(now or LEAST, enough)


# Of a kind that has no buckets, and of a query of which all rows must meet.
ONE = Wanted(1)


def next_scales(scales: Scales, batch: int, wanted: Wanted, by_tasks: bool = False) -> Scales:
    """Return the scales up to a batch that is written down now; ``by_tasks``: whether tasks of Spark make it."""
    now = scales[-1].buckets if scales else None
    buckets = wanted.after(now, by_tasks)
    return scales if buckets == now else (*scales, Scale(batch if scales else 1, buckets))


def changes_at(scales: Scales, batch: int) -> bool:
    """Tell if a batch is the first of its scale, and others were before."""
    return len(scales) > 1 and scales[-1].since == batch


def origin(bucket: int, scales: Scales, batch: int) -> int:
    """Return the bucket at an earlier batch whose knowledge one of the last scale goes on from."""
    for scale in reversed(scales):
        bucket %= scale.buckets
        if scale.since <= batch:
            break
    return bucket

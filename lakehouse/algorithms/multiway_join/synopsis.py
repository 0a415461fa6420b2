"""Synopsis vectors: how many rows of each join value lie in each site's window, exactly or as upper bounds.

A site makes the vector of its block (``Vector.of``), the centre adds it up (``increment``) and takes it off again when
its rows expire (``decrement``). An entry passes the filter if every other site has it (``passing``).

Reference: Yin, Zhang, SMJ: synopsis-based data stream multi-join operation, 2009, sections 3.1 and 4.
Differs from the paper: vectors are sent without their zeros; values need not be known beforehand; large domains are
hashed.
"""

import zlib
from typing import Protocol

import numpy as np

from lakehouse.algorithms.multiway_join.contract import Bools, Int64s, Vector

# At most every eighth slot is taken.
SLOTS_PER_KEY = 8
LEAST_SLOTS = 2**10
_LARGEST = 2**32 - 1


class Synopsis(Protocol):
    """The vectors of all sites."""

    def increment(self, site: int, vector: Vector) -> None:
        """Add a vector to a site's."""

    def decrement(self, site: int, vector: Vector) -> None:
        """Take a vector off a site's.

        Raises ValueError when the site has not so many rows of an entry; nothing is changed then.
        """

    def stored_at(self, entries: Int64s) -> Int64s:
        """Return counts, sites x entries."""

    def snapshot(self) -> dict[str, bytes]:
        """Return the whole state; equal states give equal snapshots."""

    def restore(self, parts: dict[str, bytes]) -> None:
        """Become what the snapshot was taken of."""


class HashedSynopsis:
    """Upper bounds: a count per slot of hashed join values, for domains too large to count each value.

    ``of``: how many entries vectors have, which share the slots where these are fewer; a whole multiple of ``slots``.
    So counts can be made anew in more slots of the same vectors, as keys become more (``slots_for``).

    Guarantee: a slot's count is at least that of every value in it, so a row that could join always passes, and a size
    made of these counts is never below the true one. Of values that a site lacks, hashed evenly, at most the share
    ``taken / slots`` passes it, where ``taken`` slots have a count.
    Cost: a vector O(its entries), memory O(sites x slots).

    >>> synopsis = HashedSynopsis(2, slots=64)
    >>> synopsis.increment(1, Vector.of([7, 9], [2, 1]))
    >>> synopsis.stored_at(np.array([7, 8])).tolist()
    [[0, 0], [2, 0]]
    """

    def __init__(self, sites: int, slots: int, of: int | None = None) -> None:
        if not 1 <= slots <= 2**31:
            raise ValueError(f"expected 1 to 2^31 slots, found {slots}")
        self.slots, self.of = slots, slots if of is None else of
        if self.of % slots:
            raise ValueError(f"expected entries in a whole multiple of {slots} slots, found {self.of}")
        self.counts = np.zeros((sites, slots), np.int64)

    def __repr__(self) -> str:
        return f"HashedSynopsis({len(self.counts)}, slots={self.of})"

    def increment(self, site: int, vector: Vector) -> None:
        """Add a vector to a site's."""
        slots = self._slots(vector)
        self.counts[site, slots.entries] += slots.counts

    def decrement(self, site: int, vector: Vector) -> None:
        """Take a vector off a site's."""
        slots = self._slots(vector)
        refuse_more_than_stored(self.counts[site, slots.entries], slots, site)
        self.counts[site, slots.entries] -= slots.counts

    def stored_at(self, entries: Int64s) -> Int64s:
        """Return counts, sites x entries."""
        counts: Int64s = self.counts[:, entries if self.slots == self.of else entries % self.slots]
        return counts

    def snapshot(self) -> dict[str, bytes]:
        """Return how many slots there are, the counts that are not 0, and where they are."""
        where = np.flatnonzero(self.counts)
        parts = {"where": where.tobytes(), "counts": self.counts.ravel()[where].tobytes()}
        return {"slots": np.array([self.slots], np.int64).tobytes(), **parts}

    def restore(self, parts: dict[str, bytes]) -> None:
        """Become what the snapshot was taken of."""
        self.slots = int(np.frombuffer(parts["slots"], np.int64)[0])
        self.counts = np.zeros((len(self.counts), self.slots), np.int64)
        self.counts.ravel()[np.frombuffer(parts["where"], np.int64)] = np.frombuffer(
            parts["counts"], np.int64
        )

    def _slots(self, vector: Vector) -> Vector:
        """Return a vector by slot instead of by entry."""
        if self.slots == self.of:
            return vector
        slots, which = np.unique(vector.entries % self.slots, return_inverse=True)
        counts = np.zeros(len(slots), np.int64)
        np.add.at(counts, which, vector.counts)
        return Vector(slots, counts, vector.sums[:0])


def slots_for(keys: int, most: int) -> int:
    """Return how many slots keep a key that a site lacks from passing it but once in eight, at most ``most``.

    A power of two, so it divides ``most`` where that is one; ``most`` itself where it is reached. Up to ``most / 8``
    keys the guarantee holds; with more the share is ``keys / most``, or less.

    >>> slots_for(1_000_000, 2**24), slots_for(3, 5)
    (8388608, 5)
    """
    return min(max(1 << (SLOTS_PER_KEY * keys - 1).bit_length(), LEAST_SLOTS), most)


def passing(stored: Int64s, site: int) -> Bools:
    """Return which entries pass the filter of a site's block: those that every other site has stored."""
    has: Bools = stored > 0
    has[site] = True
    passes: Bools = np.logical_and.reduce(has)
    return passes


def refuse_more_than_stored(stored: Int64s, vector: Vector, site: int) -> None:
    """Raise ValueError if a site has stored less of an entry than a vector takes off."""
    if (over := vector.counts > stored).any():
        at = int(np.argmax(over))
        raise ValueError(
            f"expected to take off at most {stored[at]} rows of entry {vector.entries[at]} at site {site}, "
            f"found {vector.counts[at]}"
        )


def pack(vector: Vector) -> bytes:
    """Return a vector without sums as bytes, for its way to the centre; O(entries).

    They are the steps between entries, then the counts, compressed: of a hundred thousand rows with keys of their own
    an entry takes a byte or so.

    Raises:
        ValueError: an entry or a count is not from 0 to 2^32 - 1.

    >>> unpack(pack(Vector.of([3, 70], [1, 9]))).counts.tolist()
    [1, 9]
    """
    entries, counts = vector.entries, vector.counts
    for what, numbers in (("entries", entries), ("counts", counts)):
        if len(numbers) and (numbers.min() < 0 or numbers.max() > _LARGEST):
            raise ValueError(
                f"expected {what} from 0 to {_LARGEST}, found {numbers.min()} to {numbers.max()}"
            )
    steps = np.diff(entries, prepend=0)
    # Bytes of one weight stand together: most of the high ones are 0.
    columns = np.concatenate([steps, counts]).astype("<u4").view(np.uint8).reshape(-1, 4)
    return zlib.compress(columns.T.tobytes(), 1)


def unpack(packed: bytes) -> Vector:
    """Return the vector that bytes were made of."""
    columns = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(4, -1)
    numbers: Int64s = np.ascontiguousarray(columns.T).view("<u4").ravel().astype(np.int64)
    half = len(numbers) // 2
    entries = np.cumsum(numbers[:half])
    return Vector(entries, numbers[half:], np.zeros((half, 0), np.int64))

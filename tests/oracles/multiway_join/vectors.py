"""Vectors of rows, counted by a synopsis' entries, and a check that a centre's counts are those of its blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from lakehouse.algorithms.multiway_join.centre import Centre
from lakehouse.algorithms.multiway_join.contract import Int64s, Vector
from lakehouse.algorithms.multiway_join.synopsis import HashedSynopsis, Synopsis


def slot_of(keys: Int64s, slots: int) -> Int64s:
    """Return slots from 0, spread evenly also where keys are consecutive or multiples (splitmix64's last steps)."""
    mixed = keys.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(slots)).astype(np.int64)


def entries_of(synopsis: Synopsis, keys: Int64s) -> Int64s:
    """Return the entry of each key: a slot, or the key itself where vectors are exact."""
    return slot_of(keys, synopsis.of) if isinstance(synopsis, HashedSynopsis) else keys


def vector_in(
    synopsis: Synopsis, keys: Any, missing: Any = None, counts: Any = None, sums: Any = None
) -> Vector:
    """Return the vector of rows, or of keys with their counts; rows whose key is missing are left out.

    Raises:
        ValueError: columns differ in length, a count is below 1, or there are not as many sums as declared.
    """
    entries = entries_of(synopsis, np.asarray(keys, np.int64))
    return _vector_of(entries, missing, counts, sums, getattr(synopsis, "summed", 0))


def _vector_of(entries: Int64s, missing: Any, counts: Any, sums: Any, summed: int) -> Vector:
    """Return the vector of rows, or of counted entries, without those that are missing."""
    n = len(entries)
    numbers = np.zeros((n, summed), np.int64) if sums is None else np.asarray(sums, np.int64)
    if numbers.shape != (n, summed) or (sums is None and summed):
        shape = "none" if sums is None else " x ".join(map(str, np.shape(sums)))
        raise ValueError(f"expected sums of {summed} columns for {n} keys, found {shape}")
    rows = np.ones(n, np.int64) if counts is None else np.asarray(counts, np.int64)
    if rows.shape != (n,) or np.any(rows < 1):
        raise ValueError(f"expected {n} counts of at least 1, found {rows.tolist()[:10]}")
    if missing is not None:
        there = ~np.asarray(missing, np.bool_)
        entries, numbers, rows = entries[there], numbers[there], rows[there]
    distinct, which = np.unique(entries, return_inverse=True)
    vector = Vector(distinct, np.zeros(len(distinct), np.int64), np.zeros((len(distinct), summed), np.int64))
    np.add.at(vector.counts, which, rows)
    if summed:
        np.add.at(vector.sums, which, numbers)
    return vector


def check_centre(centre: Centre) -> None:
    """Raise AssertionError if a count of a limited window is not that of the blocks remembered."""
    for site, window_us in enumerate(centre.query.windows_us):
        blocks = centre._remembered.of(site)
        times = [at_us for at_us, _ in blocks]
        assert times == sorted(times), "blocks out of order"
        assert window_us is not None or not blocks, "a block that never expires"
        assert all(at_us >= centre.at_us - (window_us or 0) for at_us in times), "a block beyond its window"
        if blocks:
            entries, counts = (
                np.concatenate([getattr(vector, name) for _, vector in blocks])
                for name in ("entries", "counts")
            )
            distinct, which = np.unique(entries, return_inverse=True)
            held = np.bincount(which, counts)
            assert np.array_equal(centre.synopsis.stored_at(distinct)[site], held), "a count without its rows"

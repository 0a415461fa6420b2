"""Values that stand in runs, counted by bin, and the smallest hashes of each run's distinct ones.

A bin is all doubles whose first bits are the same: the order-preserving whole number of a double without its last
``shift`` bits, so that a bin's middle is off by at most ``2 ** (shift - 53)`` of any value in it. A run begins with a
least shift and drops one bit more whenever it has more than so many bins. The shift that it ends with depends on which
values there are, not on their order, so any parts of a run, put together, have the bins of the whole.

Cost: one pass, a look into a table of fixed size a value. Source: Masson, Rim, Lee 2019 (DDSketch), with the uniform
collapse of Epicoco et al. 2020 (UDDSketch) and the bins of HdrHistogram; Bar-Yossef et al. 2002 for hashes.
"""

from typing import Any

import numpy as np
from numba import njit

# Slots of tables, of which at most a quarter is used.
_SLOTS_A_VALUE = 4
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_POSITIVE, _NEGATIVE_ZERO = np.int64(2**63 - 1), np.int64(-(2**63))
HASH_BITS = 40
_CUT = np.uint64(64 - HASH_BITS)


@njit(cache=True)
def _slot(key: int, mask: int) -> Any:
    return np.int64((np.uint64(key) * _SPREAD) >> np.uint64(32)) & mask


@njit(cache=True)
def _collapse(keys: Any, counts: Any, used: int, slots: Any, marks: Any, mark: int) -> int:
    """Drop the last bit of the keys of all bins; return how many are left. Their slots get a new mark."""
    mask, kept = len(slots) - 1, 0
    for old in range(used):
        key = keys[old] >> 1
        at = _slot(key, mask)
        while marks[at] == mark and keys[slots[at]] != key:
            at = (at + 1) & mask
        if marks[at] == mark:
            counts[slots[at]] += counts[old]
        else:
            marks[at], slots[at] = mark, kept
            keys[kept], counts[kept] = key, counts[old]
            kept += 1
    return kept


@njit(cache=True)
def ordered(bits: Any) -> Any:
    """Return the whole number of a double, given by its bits, that is in order with others; zero has one sign."""
    if bits >= 0 or bits == _NEGATIVE_ZERO:
        return max(bits, 0)
    return bits ^ _POSITIVE


@njit(cache=True)
def bin_table(most: int) -> Any:
    """Return room for the bins of a run: keys, counts, slots and their marks."""
    size = _SLOTS_A_VALUE * most
    slots, marks = np.empty(size, np.int64), np.zeros(size, np.int64)
    return np.empty(most + 1, np.int64), np.empty(most + 1, np.int64), slots, marks


@njit(cache=True)
def bin_run(
    bits: Any, weights: Any, low: int, high: int, most: int, shift: int, table: Any, mark: int
) -> Any:
    """Count one run of doubles into the bins of a table; return how many there are, their shift, and the last mark."""
    keys, counts, slots, marks = table
    mask, mark, used = len(slots) - 1, mark + 1, 0
    for row in range(low, high):
        key = ordered(bits[row]) >> shift
        at = _slot(key, mask)
        while marks[at] == mark and keys[slots[at]] != key:
            at = (at + 1) & mask
        weight = weights[row] if len(weights) else 1
        if marks[at] == mark:
            counts[slots[at]] += weight
            continue
        marks[at], slots[at] = mark, used
        keys[used], counts[used] = key, weight
        used += 1
        while used > most:
            mark, shift = mark + 1, shift + 1
            used = _collapse(keys, counts, used, slots, marks, mark)
    return used, shift, mark


@njit(cache=True, nogil=True)
def bin_runs(
    bits: Any, weights: Any, ends: Any, most: int, shifts: Any, bins: Any, rows: Any, out: Any
) -> None:
    """Count each run of doubles, given by their bits, into bins: ``bins`` and ``rows`` up to ``out[run]``.

    ``most``: how many at most, a power of two. ``weights``: the rows that each value stands for, none where it is one.
    ``shifts``: the least of each run, which becomes that of its bins.
    """
    table, mark, written = bin_table(most), 0, 0
    for run in range(len(ends) - 1):
        used, shifts[run], mark = bin_run(
            bits, weights, ends[run], ends[run + 1], most, shifts[run], table, mark
        )
        bins[written : written + used], rows[written : written + used] = table[0][:used], table[1][:used]
        written += used
        out[run] = written


@njit(cache=True)
def hash_of(word: int) -> Any:
    """Return the hash of a word."""
    mixed = np.uint64(word) + _SPREAD
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
    return (mixed ^ (mixed >> np.uint64(31))) >> _CUT


@njit(cache=True)
def hash_table(most: int) -> Any:
    """Return room for the smallest hashes of a run: slots, their marks, and the hashes."""
    size = 2 * _SLOTS_A_VALUE * most
    return np.empty(size, np.uint64), np.zeros(size, np.int64), np.empty(2 * most, np.uint64)


@njit(cache=True, inline="always")
def is_there(mixed: Any, table: Any, mark: int) -> Any:
    """Return whether a hash stands in its own slot of a table; one that does not may be in another."""
    at = np.int64(mixed) & (len(table[0]) - 1)
    return table[1][at] == mark and table[0][at] == mixed


@njit(cache=True)
def kept_hash(mixed: Any, used: int, limit: Any, table: Any, mark: int, most: int) -> Any:
    """Add a hash that is not above the limit; return how many there are, the new limit, and the last mark."""
    slots, marks, kept = table
    mask = len(slots) - 1
    at = np.int64(mixed) & mask
    while marks[at] == mark and slots[at] != mixed:
        at = (at + 1) & mask
    if marks[at] == mark:
        return used, limit, mark
    marks[at], slots[at], kept[used] = mark, mixed, mixed
    used += 1
    if used == 2 * most:
        kept[:] = np.partition(kept, most - 1)
        used, limit, mark = most, kept[most - 1], mark + 1
        for each in kept[:most]:
            at = np.int64(each) & mask
            while marks[at] == mark:
                at = (at + 1) & mask
            marks[at], slots[at] = mark, each
    return used, limit, mark


@njit(cache=True)
def smallest(kept: Any, used: int, most: int, hashes: Any, written: int) -> int:
    """Write the smallest hashes that are held behind those written; return how many there are then."""
    if used > most:
        kept[:used], used = np.partition(kept[:used], most - 1), most
    for at in range(used):
        hashes[written + at] = np.int64(kept[at])
    return written + used


@njit(cache=True, nogil=True)
def hash_runs(words: Any, ends: Any, most: int, hashes: Any, out: Any) -> None:
    """Write the ``most`` smallest hashes of the distinct words of each run to ``hashes``, up to ``out[run]``."""
    table, mark, written = hash_table(most), 0, 0
    for run in range(len(ends) - 1):
        mark, used, limit = mark + 1, 0, np.uint64(2**64 - 1)
        for row in range(ends[run], ends[run + 1]):
            mixed = hash_of(words[row])
            # Mostly it stands where it belongs, and a call costs more than this look.
            if mixed <= limit and not is_there(mixed, table, mark):
                used, limit, mark = kept_hash(mixed, used, limit, table, mark, most)
        written = smallest(table[2], used, most, hashes, written)
        out[run] = written

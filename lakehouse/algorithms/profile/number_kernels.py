"""Figures of runs of numbers in one pass: sums, extremes, smallest hashes, and bins by their place.

Bins are those of run_kernels.py, with the same shift: the smallest one with at most so many. Here they are counted in
pages of one octave each, which their keys number, so that a value costs no search; of a run that is short, or whose
values are of more octaves than there are pages, none is counted, and ``bin_runs`` does it.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.profile.run_kernels import (
    bin_run,
    bin_table,
    hash_of,
    hash_table,
    is_there,
    kept_hash,
    ordered,
    smallest,
)

# Octaves of numbers of either sign; bits of a page's keys, of the least shift that is counted here.
_OCTAVES, _BITS = 4096, 12
_PAGES, _FEWEST = 64, 4096
_NEGATIVE_ZERO = np.int64(-(2**63))
_LEAST_SHIFT = 52 - _BITS


@njit(cache=True)
def _octaves(pages: Any, used: int) -> Any:
    """Return the octaves that have a page, in order of their numbers."""
    found, at = np.empty(used, np.int64), 0
    for octave in range(_OCTAVES):
        if pages[octave] >= 0:
            found[at] = octave
            at += 1
    return found


@njit(cache=True)
def _gather(pages: Any, counts: Any, used: int, keys: Any, rows: Any) -> int:
    """Write the bins of all pages in order; return how many there are."""
    made = 0
    for octave in _octaves(pages, used):
        page = counts[pages[octave]]
        for key in range(len(page)):
            if page[key]:
                keys[made], rows[made] = ((octave - _OCTAVES // 2) << _BITS) + key, page[key]
                made += 1
    return made


@njit(cache=True)
def _collapse(keys: Any, rows: Any, made: int) -> int:
    """Drop the last bit of keys in order; return how many are left."""
    kept = 0
    for old in range(made):
        key = keys[old] >> 1
        if kept and keys[kept - 1] == key:
            rows[kept - 1] += rows[old]
        else:
            keys[kept], rows[kept] = key, rows[old]
            kept += 1
    return kept


# In any order, so that several are added at once.
@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _squares(numbers: Any, mean: float) -> float:
    """Return the sum of squared distances from a mean."""
    squares = 0.0
    for value in numbers:
        squares += (value - mean) ** 2
    return squares


@njit(cache=True, nogil=True)
def number_runs(
    numbers: Any, words: Any, is_double: bool, ends: Any, limits: Any, of_run: Any, lists: Any
) -> None:
    """Write figures of each run ``ends[i]`` to ``ends[i + 1]`` of numbers, and of the words that tell them apart.

    ``limits``: the most bins, their least shift, 40, and the most hashes. ``of_run``: mean, squares, extremes, and
    shifts, ends of bins and ends of hashes by run. ``lists``: bins, their rows, and hashes.
    """
    (most, least_shift, most_hashes), (moments, shifts, bins_out, hashes_out) = limits, of_run
    bins, bin_rows, hashes = lists
    bits, weights = numbers.view(np.int64), np.empty(0, np.int64)
    table, seen = bin_table(most), hash_table(most_hashes)
    # Without a long run there is no use for pages, which take long to make.
    room = _PAGES if np.any(np.diff(ends) >= _FEWEST) else 0
    pages, counts = np.full(_OCTAVES, -1), np.zeros((room, 1 << _BITS), np.int32)
    keys, rows = np.empty(room << _BITS, np.int64), np.empty(room << _BITS, np.int64)
    written, hashed, mark, seen_mark = 0, 0, 0, 0
    for run in range(len(ends) - 1):
        low, high = ends[run], ends[run + 1]
        total, least, greatest = 0.0, np.inf, -np.inf
        seen_mark, held, limit = seen_mark + 1, 0, np.uint64(2**64 - 1)
        is_direct, used = high - low >= _FEWEST and least_shift == _LEAST_SHIFT, 0
        if is_direct:
            pages[:] = -1
        for row in range(low, high):
            value, word = numbers[row], words[row]
            total += value
            least, greatest = min(least, value), max(greatest, value)
            if is_double and word == _NEGATIVE_ZERO:
                word = 0
            mixed = hash_of(word)
            if mixed <= limit and not is_there(mixed, seen, seen_mark):
                held, limit, seen_mark = kept_hash(mixed, held, limit, seen, seen_mark, most_hashes)
            if is_direct:
                # In place, as a call for each value costs as much as the rest.
                key = ordered(bits[row]) >> _LEAST_SHIFT
                page = pages[(key >> _BITS) + _OCTAVES // 2]
                if page < 0:
                    if used == _PAGES:
                        is_direct = False
                        continue
                    page = pages[(key >> _BITS) + _OCTAVES // 2] = used
                    counts[page], used = 0, used + 1
                counts[page, key & ((1 << _BITS) - 1)] += 1
        mean = total / max(high - low, 1)
        squares = _squares(numbers[low:high], mean)
        moments[0, run], moments[1, run], moments[2, run], moments[3, run] = mean, squares, least, greatest
        hashes_out[run] = hashed = smallest(seen[2], held, most_hashes, hashes, hashed)
        shift, found, of_found = least_shift, keys, rows
        if is_direct:
            made = _gather(pages, counts, used, keys, rows)
            while made > most:
                made, shift = _collapse(keys, rows, made), shift + 1
        else:
            made, shift, mark = bin_run(bits, weights, low, high, most, shift, table, mark)
            found, of_found = table[0], table[1]
        bins[written : written + made], bin_rows[written : written + made] = found[:made], of_found[:made]
        written += made
        shifts[run], bins_out[run] = shift, written

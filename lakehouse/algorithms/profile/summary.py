"""Summary of a column's values that parts of it are combined into, of a bounded size.

Moments are combined by Chan's formula. Quantiles come from the rows of each of at most ``BINS`` bins (run_kernels.py):
exact up to so many distinct values unless bins are coarse from the start, else within ``Summary.error`` of the value.
Distinct values are those of the ``SIZE`` smallest hashes (Bar-Yossef et al. 2002): exact below that, else with a
deviation of 1/sqrt(SIZE - 2). Bins and hashes are the same however a column was cut into parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Self

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.profile.number_kernels import number_runs
from lakehouse.algorithms.profile.run_kernels import HASH_BITS, bin_runs, hash_runs

SIZE, BINS = 512, 2048
# Bits of a value that bins may lack from the start: four digits are left.
COARSE_SHIFT = 40
# Relative deviation of a number of distinct values above SIZE.
DISTINCT_ERROR = (SIZE - 2) ** -0.5
Numbers = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_POSITIVE = np.int64(2**63 - 1)
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Bins:
    """Bins of runs of values: those of run i end at ``ends[i]``, and drop ``shifts[i]`` bits of a value."""

    shifts: Integers
    keys: Integers
    weights: Integers
    ends: Integers

    @classmethod
    def of(cls, numbers: Numbers) -> Self:
        """Return the bins of one run."""
        return cls._of_bits(
            numbers.view(np.int64), _NONE, np.array([0, len(numbers)]), np.zeros(1, np.int64), BINS
        )

    @classmethod
    def _of_bits(cls, bits: Integers, weights: Integers, ends: Integers, shifts: Integers, most: int) -> Self:
        keys, rows, out = (np.empty(size, np.int64) for size in (len(bits), len(bits), len(ends) - 1))
        bin_runs(bits, weights, ends, most, shifts, keys, rows, out)
        written = int(out[-1]) if len(out) else 0
        return cls(shifts, keys[:written], rows[:written], out)

    @classmethod
    def combined(cls, parts: Sequence[Summary], most: int) -> Self:
        """Return the bins of all parts as one run, whose shift is the largest of theirs or more."""
        shift = max((part.shift for part in parts if len(part.bins)), default=0)
        keys = _joined([np.asarray(part.bins, np.int64) << part.shift for part in parts])
        weights, ends = _joined([part.weights for part in parts]), np.array([0, len(keys)])
        return cls._of_bits(_as_bits(keys), weights, ends, np.array([shift]), most)


def hashes_of(words: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """Return the ``SIZE`` smallest hashes of each run of words, and where they end for each run."""
    hashes, out = (
        np.empty(min(len(words), SIZE * (len(ends) - 1)), np.int64),
        np.empty(len(ends) - 1, np.int64),
    )
    hash_runs(words, ends, SIZE, hashes, out)
    return hashes[: out[-1] if len(out) else 0], out


@dataclass(frozen=True)
class NumberRuns:
    """Figures of runs of numbers: moments, extremes, of no meaning where a run is empty, bins, and smallest hashes."""

    mean: Numbers
    squares: Numbers
    least: Numbers
    greatest: Numbers
    bins: Bins
    hashes: Integers
    hash_ends: Integers

    @classmethod
    def of(cls, numbers: Numbers, words: Integers, is_double: bool, ends: Integers, most: int) -> Self:
        """Return the figures of runs; bins have four digits from the start. ``words`` tell numbers apart.

        Cost: one pass, and a second one for the squares.
        """
        runs = len(ends) - 1
        moments, out = np.empty((4, runs)), [np.empty(runs, np.int64) for _ in range(3)]
        keys, weights, hashes = (
            np.empty(min(len(numbers), size * runs), np.int64) for size in (most, most, SIZE)
        )
        limits, of_run = (most, COARSE_SHIFT, SIZE), (moments, *out)
        number_runs(numbers, words, is_double, ends, limits, of_run, (keys, weights, hashes))
        shifts, written, hashed = out
        last, last_hash = (int(each[-1]) if runs else 0 for each in (written, hashed))
        bins = Bins(shifts, keys[:last], weights[:last], written)
        mean, squares, least, greatest = moments
        return cls(mean, squares, least, greatest, bins, hashes[:last_hash], hashed)


@dataclass(frozen=True)
class Summary:
    """Rows and missing values of a column, and of the numbers in it mean, squared distances from it, and quantiles.

    ``bins``: the first bits of values, without ``shift`` last ones, and ``weights``: the rows in each. ``hashes``: the
    smallest ones. All three are in any order.
    """

    rows: int = 0
    missing: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float | None = None
    high: float | None = None
    shift: int = 0
    bins: Sequence[int] = ()
    weights: Sequence[int] = ()
    hashes: Sequence[int] = field(default=())

    @classmethod
    def of(cls, missing: int, words: Integers, numbers: Numbers | None = None) -> Self:
        """Return the summary of values by words that tell them apart, and as numbers where they are such."""
        ends = np.array([0, len(words)])
        rows, smallest = missing + len(words), hashes_of(words, ends)[0].tolist()
        if numbers is None or not len(numbers):
            return cls(rows, missing, hashes=smallest)
        mean = float(numbers.mean())
        squares = float(np.square(numbers - mean).sum())
        bins = Bins.of(numbers)
        moments = (rows, missing, mean, squares, float(numbers.min()), float(numbers.max()))
        return cls(*moments, int(bins.shifts[0]), bins.keys.tolist(), bins.weights.tolist(), smallest)

    @classmethod
    def combined(cls, parts: Sequence[Self], most: int = BINS) -> Self:
        """Return the summary of all parts of a column, of at most so many bins."""
        both = reduce(cls._with_moments, parts, cls())
        bins = Bins.combined(parts, most)
        hashes = np.unique(_joined([part.hashes for part in parts]))[:SIZE].tolist()
        moments = (both.rows, both.missing, both.mean, both.squares, both.low, both.high)
        return cls(*moments, int(bins.shifts[0]), bins.keys.tolist(), bins.weights.tolist(), hashes)

    def _with_moments(self, other: Self) -> Self:
        rows, missing = self.rows + other.rows, self.missing + other.missing
        if other.low is None or other.high is None:
            own = (self.mean, self.squares, self.low, self.high)
            return type(self)(rows, missing, *own)
        own_count, more = self.count, other.count
        apart, count = other.mean - self.mean, own_count + more
        mean = self.mean + apart * more / count
        squares = self.squares + other.squares + apart**2 * own_count * more / count
        low = other.low if self.low is None else min(self.low, other.low)
        high = other.high if self.high is None else max(self.high, other.high)
        return type(self)(rows, missing, mean, squares, low, high)

    @property
    def count(self) -> int:
        """The rows that have a value."""
        return self.rows - self.missing

    @property
    def total(self) -> float:
        """The sum of the values."""
        return self.mean * self.count

    @property
    def deviation(self) -> float | None:
        """The standard deviation of a sample; None of fewer than two values."""
        return (self.squares / (self.count - 1)) ** 0.5 if self.count > 1 else None

    @property
    def distinct(self) -> float:
        """The number of distinct values, estimated where there are SIZE or more."""
        if len(self.hashes) < SIZE:
            return float(len(self.hashes))
        return float((SIZE - 1) / (max(self.hashes) / 2**HASH_BITS))

    @property
    def error(self) -> float:
        """The most that a quantile is off, as a share of its value."""
        return float(2.0 ** (self.shift - 53)) if self.shift else 0.0

    def quantile(self, share: float) -> float:
        """Return the value whose rank is nearest to a share of the values, within the stated error."""
        return self._at(int(np.rint(share * (self.count - 1))))

    @property
    def median(self) -> float:
        """The value in the middle, or the mean of both."""
        return (self._at((self.count - 1) // 2) + self._at(self.count // 2)) / 2

    def shares_up_to(self, bounds: Numbers) -> Numbers:
        """Return the share of the values that is not above each bound."""
        values, ends = self._points
        places = np.searchsorted(values, bounds, side="right")
        return np.concatenate([[0], ends])[places] / max(self.count, 1)

    def _at(self, rank: int) -> float:
        values, ends = self._points
        return float(values[int(np.searchsorted(ends, rank, side="right"))])

    @cached_property
    def _points(self) -> tuple[Numbers, Integers]:
        """The middle of each bin, in order, and how many values there are up to it."""
        keys = np.asarray(self.bins, np.int64)
        order = np.argsort(keys)
        middle = np.int64(1 << (self.shift - 1) if self.shift else 0)
        values = _as_bits((keys[order] << self.shift) + middle).view(np.float64)
        # What is nearest to zero is zero itself.
        values[keys[order] == 0] = 0.0
        ends = np.cumsum(np.asarray(self.weights, np.int64)[order])
        return np.clip(values, self.low, self.high), ends


def _joined(parts: Sequence[Sequence[int] | Integers]) -> Integers:
    return np.concatenate([*(np.asarray(part, np.int64) for part in parts), _NONE])


def _as_bits(ordered: Integers) -> Integers:
    """Return the bits of doubles by their whole numbers in order, and the other way round."""
    return np.where(ordered >= 0, ordered, ordered ^ _POSITIVE)

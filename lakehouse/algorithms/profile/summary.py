"""Summary of a column's values that parts of it are combined into, of a fixed size.

Moments are combined by Chan's formula. Quantiles come from values in order with the number of rows each stands for:
exact up to ``SIZE`` distinct values; beyond it values are put into ``SIZE`` groups of equal rows, so that a rank is
wrong by 1/(2 SIZE) of the rows for each time that this was done. Distinct values are those of the ``SIZE`` smallest
hashes (Bar-Yossef et al. 2002): exact below that, else with a deviation of 1/sqrt(SIZE - 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Self

import numpy as np
import numpy.typing as npt

SIZE = 512
# Relative deviation of a number of distinct values above SIZE.
DISTINCT_ERROR = (SIZE - 2) ** -0.5
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """Rows and missing values of a column, and of the numbers in it mean, squared distances from it, and quantiles.

    ``values``: some of them in order, and ``weights``: the rows that each stands for. ``hashes``: the smallest ones.
    """

    rows: int = 0
    missing: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float | None = None
    high: float | None = None
    values: Sequence[float] = ()
    weights: Sequence[int] = ()
    hashes: Sequence[int] = field(default=())

    @classmethod
    def of(cls, missing: int, hashes: npt.NDArray[np.uint64], numbers: Numbers | None = None) -> Self:
        """Return the summary of values by their hashes, and as numbers where they are such."""
        smallest = np.unique(hashes)[:SIZE].tolist()
        rows = missing + len(hashes)
        if numbers is None or not len(numbers):
            return cls(rows, missing, hashes=smallest)
        mean = float(numbers.mean())
        squares = float(np.square(numbers - mean).sum())
        values, weights = np.unique(numbers, return_counts=True)
        points = _grouped(values, weights)
        return cls(rows, missing, mean, squares, float(values[0]), float(values[-1]), *points, smallest)

    @classmethod
    def combined(cls, parts: Sequence[Self]) -> Self:
        """Return the summary of all parts of a column."""
        both = reduce(cls._with_moments, parts, cls())
        values = np.concatenate([np.asarray(part.values, np.float64) for part in parts] or [np.empty(0)])
        weights = np.concatenate(
            [np.asarray(part.weights, np.int64) for part in parts] or [np.empty(0, np.int64)]
        )
        distinct, place = np.unique(values, return_inverse=True)
        points = _grouped(distinct, np.bincount(place, weights, len(distinct)).astype(np.int64))
        hashes = sorted({each for part in parts for each in part.hashes})[:SIZE]
        moments = (both.rows, both.missing, both.mean, both.squares, both.low, both.high)
        return cls(*moments, *points, hashes)

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
        """The number of distinct values, estimated where there are more than SIZE."""
        if len(self.hashes) < SIZE:
            return float(len(self.hashes))
        return (SIZE - 1) / (self.hashes[-1] / 2**64)

    def quantile(self, share: float) -> float:
        """Return the value whose rank is nearest to a share of the values."""
        return self._at(int(np.rint(share * (self.count - 1))))

    @property
    def median(self) -> float:
        """The value in the middle, or the mean of both."""
        return (self._at((self.count - 1) // 2) + self._at(self.count // 2)) / 2

    def _at(self, rank: int) -> float:
        return self.values[int(np.searchsorted(np.cumsum(self.weights), rank, side="right"))]


def _grouped(values: Numbers, weights: npt.NDArray[np.int64]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return at most SIZE of the values, each with the rows of a group: the one in its middle."""
    if len(values) <= SIZE:
        return values.tolist(), weights.tolist()
    ends = np.cumsum(weights)
    bounds = ends[-1] * np.arange(SIZE + 1) // SIZE
    middle = (bounds[:-1] + bounds[1:]) // 2
    return values[np.searchsorted(ends, middle, side="right")].tolist(), np.diff(bounds).tolist()

"""Drift of a column: how far its values on one day are from those of the days before.

The population stability index, the symmetric divergence of Kullback and Leibler (1951, equation 2.6) over bins: the
tenths of the earlier values, or their most frequent ones and all others. Shares below ``LEAST`` count as that, so that
an empty bin is not infinitely far. Of equal distributions it is about (bins - 1)(1/n + 1/m) for n and m values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.profile.frequent import Frequent
from lakehouse.algorithms.profile.summary import Summary

TENTHS, FREQUENT, LEAST = 10, 10, 1e-4
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """Shares of earlier and of new values by bin, and the names of the bins."""

    names: Sequence[str]
    before: Numbers
    new: Numbers

    @property
    def index(self) -> float:
        """The population stability index."""
        return float(self._parts.sum())

    @property
    def worst(self) -> int:
        """The bin that adds most to it."""
        return int(self._parts.argmax())

    @property
    def _parts(self) -> Numbers:
        before, new = (np.maximum(each, LEAST) for each in (self.before, self.new))
        return (new - before) * np.log(new / before)


def shares_of_numbers(before: Summary, new: Summary) -> Shares:
    """Return the shares of values in the tenths of earlier ones, within the errors of both."""
    bounds = np.unique([before.quantile(part / TENTHS) for part in range(1, TENTHS)])
    shares = (np.diff(each.shares_up_to(bounds), prepend=0.0, append=1.0) for each in (before, new))
    ends = [f"{bound:.3g}" for bound in bounds]
    between = [f"above {low} up to {high}" for low, high in pairwise(ends)]
    return Shares([f"up to {ends[0]}", *between, f"above {ends[-1]}"], *shares)


def shares_of_values(before: tuple[Frequent, int], new: tuple[Frequent, int]) -> Shares:
    """Return the shares of the most frequent earlier values, and of all others; each with the number of all values."""
    known = before[0].counts
    names = sorted(known, key=lambda name: (-known[name], name))[:FREQUENT]
    own = (
        np.array([frequent.counts.get(name, 0) for name in names], np.float64) / count
        for frequent, count in (before, new)
    )
    return Shares([*names, "others"], *(np.append(each, max(0.0, 1 - each.sum())) for each in own))

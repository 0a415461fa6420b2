"""Answers about all results of the stored windows without a join: COUNT(*) and SUM, from exact vectors alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Int64s
    from tests.oracles.multiway_join.dense_synopsis import DenseSynopsis


def count_results(synopsis: DenseSynopsis) -> int:
    """Return how many results the rows in all windows make: ``sum over values of product of counts``.

    Exact at any size. Cost: O(sites x values).

    >>> from tests.oracles.multiway_join.dense_synopsis import DenseSynopsis
    >>> from tests.oracles.multiway_join.vectors import vector_in
    >>> synopsis = DenseSynopsis(2, summed=1)
    >>> synopsis.increment(0, vector_in(synopsis, [7, 7, 8], sums=[[10], [20], [30]]))
    >>> synopsis.increment(1, vector_in(synopsis, [7, 7, 7], sums=[[0], [0], [0]]))
    >>> count_results(synopsis), sum_results(synopsis, site=0)
    (6, 90)
    """
    return _sum_of_products(synopsis.counts, np.ones(len(synopsis.values), np.int64))


def sum_results(synopsis: DenseSynopsis, site: int, column: int = 0) -> int:
    """Return the sum over all results of one number of a site's row; 0 where there is no result.

    Each value's sum at the site counts once for each combination of the other sites' rows. Exact at any size. An
    average is this by ``count_results``, where no number is null.

    Raises:
        ValueError: there is no such column of sums.
    """
    if not 0 <= column < synopsis.summed:
        raise ValueError(f"expected one of {synopsis.summed} columns of sums, found column {column}")
    return _sum_of_products(np.delete(synopsis.counts, site, axis=0), synopsis.sums[site, :, column])


def _sum_of_products(counts: Int64s, weights: Int64s) -> int:
    estimate = float(np.abs(weights.astype(np.float64)) @ counts.astype(np.float64).prod(axis=0))
    if estimate < 2**62:
        # Products that wrap around are of values with weight 0: whatever they are, they count nothing.
        return int((weights * counts.prod(axis=0)).sum())
    return int((weights.astype(object) * counts.astype(object).prod(axis=0)).sum())

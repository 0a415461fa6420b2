"""A few ranges of time that hold the neighbourhoods of many rows.

A repair looks for partners around logged rows. Ranges are plain predicates, by which statistics rule whole files out,
where a list of a million times is not.
"""

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def covering_ranges(first: Int64s, last: Int64s, most: int) -> list[tuple[int, int]]:
    """Return at most ``most`` disjoint ranges, ascending, that hold every ``[first, last]``.

    Ranges that overlap are one; then those with the smallest gaps between them become one, so that what is covered
    in vain is the least that so few ranges allow. Ends are included. Cost: a sort.

    >>> covering_ranges(np.array([0, 50, 5]), np.array([10, 60, 12]), most=4)
    [(0, 12), (50, 60)]

    Raises ValueError where a range ends before it begins, or none is allowed.
    """
    if most < 1 or np.any(last < first):
        raise ValueError("expected at least one range, and none that ends before it begins")
    if not len(first):
        return []
    order = np.argsort(first, kind="stable")
    low, reached = first[order], np.maximum.accumulate(last[order])
    gaps = low[1:] - reached[:-1]
    # The widest gaps separate ranges; touching ones never do.
    cut = np.flatnonzero(gaps > 0)
    widest = np.sort(cut[np.argsort(-gaps[cut], kind="stable")[: most - 1]])
    ends = low[np.append(0, widest + 1)], reached[np.append(widest, len(low) - 1)]
    return list(zip(*(each.tolist() for each in ends), strict=True))

"""Refinement of nodes that an end of a range cuts by those of a finer grouping, of the same level and time.

A node of a grouping is the sum of the nodes of a grouping with more keys. Each of those has first and last times and
extremes of its own, so what all of them allow together is never wider, and much closer where a node holds about a row
of each series:

    grouping []          |  o  x o   o x  x |           6 rows; a range that ends here  ^  holds from 1 to 5
    grouping [device]    |  o    o   o      |           3, all before the end
                         |     x       x  x |           3, some on either side: 1 or 2
                                     ^

Cost: the nodes of all finer series in at most two nodes of a series. So a finer grouping has at most ``MOST_SERIES``
series; a node of more than ``ROWS_EACH`` rows for each finer series, which could not become closer by more than one
in so many, stays as it is.

Source: ours; figures are in tests/benchmarks/results/rollup/siblings.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MOST_SERIES = 1_000
ROWS_EACH = 4
# So many series times ranges are looked for in one question; a chart of more is answered without.
MOST_READS = 100_000


@dataclass(frozen=True)
class Refinement:
    """The place of the finer grouping, how many series it has, and the most rows of a cut node that it replaces."""

    grouping: int
    series: int
    most_rows: int


def refinements(groupings: Sequence[Sequence[str]], series: Sequence[int]) -> list[Refinement | None]:
    """Return, for each grouping, what its cut nodes are refined by, None for nothing.

    Of the groupings that have all of its keys, more series than it and at most ``MOST_SERIES``, the one with the most
    series. ``series``: how many each grouping has; where it has more than that many, any such number will do.

    >>> refinements([(), ("device",), ("device", "zone")], [1, 100, 5000])
    [Refinement(grouping=1, series=100, most_rows=400), None, None]
    """
    refinements = list[Refinement | None]()
    for keys, own in zip(groupings, series, strict=True):
        finer = [
            (count, index)
            for index, (names, count) in enumerate(zip(groupings, series, strict=True))
            if set(keys) < set(names) and own < count <= MOST_SERIES
        ]
        count, index = max(finer, default=(0, 0))
        refinements.append(Refinement(index, count, ROWS_EACH * count // max(own, 1)) if finer else None)
    return refinements

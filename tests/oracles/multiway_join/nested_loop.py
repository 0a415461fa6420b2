"""The yardstick: keep every row, look at every combination."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Query
    from tests.oracles.multiway_join.block import Block

Row = tuple[int, int, int]


class NestedLoop:
    """All results of a query, by their definition; slow, and too simple to be wrong.

    A combination of one row of each site is a result if all keys are equal, none is null, and no row is older than its
    window when the newest comes. No order of blocks plays a part.

    Cost: O(product of the sites' rows).
    """

    def __init__(self, query: Query) -> None:
        self.query, self.at_us = query, 0
        self._rows: list[list[Row]] = [[] for _ in query.sites.names]

    def advance(self, at_us: int, blocks: Iterable[Block]) -> None:
        """Keep the rows of blocks that came at a time."""
        self.at_us = at_us
        for block in blocks:
            rows = zip(block.key.tolist(), block.row.tolist(), block.missing.tolist(), strict=True)
            kept = [(key, row, at_us) for key, row, is_missing in rows if not is_missing]
            self._rows[self.query.sites.number(block.site)] += kept

    def results(self) -> Iterator[tuple[int, ...]]:
        """Yield the row ids of each result, by site."""
        for rows, times in self._matches():
            if self._are_in_windows(times, max(times)):
                yield rows

    def stored(self) -> Iterator[tuple[int, ...]]:
        """Yield the same of those results whose rows are all in their windows at the last time."""
        for rows, times in self._matches():
            if self._are_in_windows(times, self.at_us):
                yield rows

    def _matches(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        for combination in product(*self._rows):
            keys, rows, times = zip(*combination, strict=True)
            if len(set(keys)) == 1:
                yield rows, times

    def _are_in_windows(self, times: tuple[int, ...], now_us: int) -> bool:
        windows = zip(times, self.query.windows_us, strict=True)
        return all(window_us is None or now_us - at_us <= window_us for at_us, window_us in windows)

"""The whole method on virtual sites: windows at the sites, plans of the centre, rows moved along them, results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.multiway_join.centre import parts_of
from lakehouse.algorithms.multiway_join.contract import Snapshot
from tests.oracles.multiway_join.travelling import Factorised, Flat
from tests.oracles.multiway_join.vectors import check_centre, entries_of, vector_in

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.centre import Centre
    from lakehouse.algorithms.multiway_join.contract import Cost, Float64s, Int64s, Plan
    from tests.oracles.multiway_join.block import Block
    from tests.oracles.multiway_join.travelling import Travelling


@dataclass(frozen=True)
class Move:
    """What became of one block: its plan, the rows that left its site and each stop, and what it cost in truth.

    ``results`` int64, results x sites: row ids.
    """

    plan: Plan
    sizes: Float64s
    cost: Cost
    results: Int64s


@dataclass(frozen=True)
class Outcome:
    """What became of the blocks of one time, in the agreed order.

    ``results`` int64, results x sites: row ids, of all blocks. ``expiry``: what telling cost that rows had expired.
    """

    moves: tuple[Move, ...]
    results: Int64s
    expiry: Cost


class Window:
    """The rows of one site that can still join: key, id and the time of their block, oldest first."""

    def __init__(self) -> None:
        self.key, self.row, self.at_us = np.empty((3, 0), np.int64)

    def add(self, key: Int64s, row: Int64s, at_us: int) -> None:
        """Store the rows of a block."""
        self.key, self.row = np.concatenate([self.key, key]), np.concatenate([self.row, row])
        self.at_us = np.concatenate([self.at_us, np.full(len(key), at_us)])

    def expire_before(self, at_us: int) -> None:
        """Drop the rows of blocks that came before a time."""
        since = int(np.searchsorted(self.at_us, at_us))
        self.key, self.row, self.at_us = self.key[since:], self.row[since:], self.at_us[since:]


class MultiwayJoin:
    """An n-way window join whose rows move as the centre plans it.

    Cost: a block O(rows stored, log of them, and what moves).
    Guarantee: the results are those of ``NestedLoop``, each once, whatever order, filter or synopsis; a restart, or
    another order of the blocks of one time, changes none. With an exact synopsis sizes and costs are as planned.
    Reference: Yin, Zhang, SMJ, 2009, sections 3.2 and 4.
    Differs from the paper: blocks of one time also meet each other, in the agreed order; there their results were lost.

    >>> from lakehouse.algorithms.multiway_join.centre import Centre
    >>> from tests.oracles.multiway_join.block import Block
    >>> from lakehouse.algorithms.multiway_join.contract import Query, Sites
    >>> from lakehouse.algorithms.multiway_join.exhaustive import Smje
    >>> from tests.oracles.multiway_join.dense_synopsis import DenseSynopsis
    >>> query = Query(Sites.of("ab", [[0, 5], [5, 0]]), (10, 10))
    >>> join = MultiwayJoin(Centre(query, DenseSynopsis(2), Smje()))
    >>> found = join.advance(0, [Block.of("b", [7, 8], row=[0, 1]), Block.of("a", [7], row=[4])])
    >>> found.results.tolist(), [move.cost.data for move in found.moves]
    ([[4, 0]], [0.0, 5.0])
    """

    def __init__(self, centre: Centre) -> None:
        self.centre = centre
        self.windows = tuple(Window() for _ in centre.query.sites.names)

    def advance(self, at_us: int, blocks: Iterable[Block]) -> Outcome:
        """Take in the blocks of one time; return their results, sizes and costs.

        Raises:
            ValueError: the time is before the last, or there is no such site.
        """
        sites = self.centre.query.sites
        ordered = sorted(blocks, key=lambda block: sites.number(block.site))
        expiry = self.centre.advance(at_us)
        for window, window_us in zip(self.windows, self.centre.query.windows_us, strict=True):
            if window_us is not None:
                window.expire_before(at_us - window_us)
        moves = tuple(self._move(block) for block in ordered)
        none = np.empty((0, len(sites)), np.int64)
        return Outcome(moves, np.concatenate([none, *(move.results for move in moves)]), expiry)

    def _move(self, block: Block) -> Move:
        centre, number = self.centre, self.centre.query.sites.number(block.site)
        key, row = block.key[~block.missing], block.row[~block.missing]
        plan = centre.apply(block.site, vector_in(centre.synopsis, key))
        self.windows[number].add(key, row, centre.at_us)
        if plan.filter is not None:
            passes = np.isin(entries_of(centre.synopsis, key), plan.filter.entries)
            key, row = key[passes], row[passes]
        visited = [number, *(centre.query.sites.number(name) for name in plan.order)]
        sizes, results = self._travel(key, row, visited)
        return Move(plan, sizes, centre.cost_of(plan, sizes), results)

    def _travel(self, key: Int64s, row: Int64s, visited: list[int]) -> tuple[Float64s, Int64s]:
        """Move rows along the sites; return how many left each, and the results with columns by site number."""
        travelling: Travelling = Flat(key, row[:, None])
        if self.centre.sending.is_factorised:
            travelling = Factorised(((key, row),))
        sizes = [travelling.size]
        for stop in visited[1:]:
            travelling = travelling.meet(self.windows[stop].key, self.windows[stop].row)
            sizes.append(travelling.size)
        if len(visited) < len(self.windows):
            return np.array(sizes, np.float64), np.empty((0, len(self.windows)), np.int64)
        return np.array(sizes, np.float64), travelling.results()[:, np.argsort(visited)]

    def snapshot(self) -> Snapshot:
        """Return the whole state: the centre's, and the windows."""
        centre = self.centre.snapshot()
        parts = {f"centre_{name}": part for name, part in centre.parts.items()}
        for site, window in enumerate(self.windows):
            parts[f"window_{site}"] = np.array([window.key, window.row, window.at_us], np.int64).tobytes()
        return Snapshot(f"MultiwayJoin, {centre.method}", parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Become the join that the snapshot was taken of.

        Raises:
            ValueError: the snapshot is of another join.
        """
        method = snapshot.method.removeprefix("MultiwayJoin, ")
        self.centre.restore(Snapshot(method, parts_of(snapshot.parts, "centre_")))
        for site, window in enumerate(self.windows):
            columns = np.frombuffer(snapshot.parts[f"window_{site}"], np.int64).reshape(3, -1).copy()
            window.key, window.row, window.at_us = columns

    def check(self) -> None:
        """Raise AssertionError if the centre's counts are not those of the windows, or its own checks fail."""
        check_centre(self.centre)
        synopsis = self.centre.synopsis
        held = [vector_in(synopsis, window.key) for window in self.windows]
        entries = np.unique(np.concatenate([vector.entries for vector in held]))
        counted = synopsis.stored_at(entries)
        for site, vector in enumerate(held):
            counted[site, np.searchsorted(entries, vector.entries)] -= vector.counts
        assert not np.any(counted), "a count that is not of the rows in its window"

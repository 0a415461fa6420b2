"""What the centre remembers of blocks in limited windows: their vectors, and from when on their windows count."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator

import numpy as np

from lakehouse.algorithms.multiway_join.contract import Vector


class Remembered:
    """Vectors of blocks by site, oldest first; memory O(their entries)."""

    def __init__(self, sites: int) -> None:
        self._blocks: list[deque[tuple[int, Vector]]] = [deque() for _ in range(sites)]

    def add(self, site: int, at_us: int, vector: Vector) -> None:
        """Remember a block, or a part of one, that came at a time; cost O(those of its site that came later)."""
        insort(self._blocks[site], (at_us, vector), key=_time)

    def take_before(self, site: int, at_us: int) -> Iterator[Vector]:
        """Forget the blocks of a site that came before a time, and yield their vectors."""
        blocks = self._blocks[site]
        while blocks and blocks[0][0] < at_us:
            yield blocks.popleft()[1]

    def of(self, site: int) -> tuple[tuple[int, Vector], ...]:
        """Return when each block of a site came, and its vector."""
        return tuple(self._blocks[site])

    def snapshot(self) -> dict[str, bytes]:
        """Return a line (site, time, entries) per block, and all blocks' vectors one after the other."""
        blocks = [(site, at_us, vector) for site, each in enumerate(self._blocks) for at_us, vector in each]
        lines = np.array([(site, at_us, len(vector)) for site, at_us, vector in blocks], np.int64)
        parts = {"lines": lines.tobytes()}
        for name in ("entries", "counts", "sums"):
            parts[name] = b"".join(getattr(vector, name).tobytes() for _, _, vector in blocks)
        return parts

    def restore(self, parts: dict[str, bytes]) -> None:
        """Become what the snapshot was taken of."""
        lines = np.frombuffer(parts["lines"], np.int64).reshape(-1, 3)
        entries, counts = (np.frombuffer(parts[name], np.int64) for name in ("entries", "counts"))
        sums = np.frombuffer(parts["sums"], np.int64)
        sums = sums.reshape(len(entries), len(sums) // max(len(entries), 1))
        self._blocks = [deque() for _ in self._blocks]
        end = 0
        for site, at_us, length in lines.tolist():
            part = slice(end, end := end + length)
            self.add(site, at_us, Vector(entries[part], counts[part], sums[part]))


def _time(block: tuple[int, Vector]) -> int:
    return block[0]

"""Batches of rows as they wait: read once for all queries, with which rows each query still has of them.

A batch stays in memory until no query has rows of it left; filters only make lists of row numbers shorter. What is
held is counted in bytes: batches, lists, and verdicts of predicates that several queries share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from lakehouse.algorithms.scheduling.contract import Bools, Int64s


class Rows(Protocol):
    """Columns of one length. Arrow's RecordBatch is such a thing; ``Columns`` is one of numpy arrays."""

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""

    @property
    def nbytes(self) -> int:
        """Return the bytes of all columns."""

    def select(self, names: Any) -> Any:
        """Return these columns only."""

    def take(self, indices: Any) -> Any:
        """Return these rows, in this order."""


@dataclass
class Memory:
    """Bytes that are held now, and the most so far."""

    held: int = 0
    peak: int = 0

    def add(self, size: int) -> None:
        """Hold more, or less."""
        self.held += size
        self.peak = max(self.peak, self.held)


@dataclass
class Verdicts:
    """Verdicts of a shared predicate on a batch so far."""

    is_known: Bools
    is_true: Bools


@dataclass
class Batch:
    """Rows that chunks point to. ``users`` chunks do; when the last one goes, its bytes are given back."""

    rows: Rows
    memory: Memory
    users: int = 0
    verdicts: dict[Any, Verdicts] = field(default_factory=dict)
    _held: int = 0

    def use(self) -> None:
        """Count one more user."""
        if not self.users:
            self._hold(self.rows.nbytes)
        self.users += 1

    def release(self) -> None:
        """Count one user less; with the last one all is given back."""
        self.users -= 1
        if not self.users:
            self.memory.add(-self._held)
            self._held = 0
            self.verdicts.clear()

    def verdicts_of(self, key: Any) -> Verdicts:
        """Return the verdicts of a shared predicate so far; none at first."""
        if key not in self.verdicts:
            rows = self.rows.num_rows
            self.verdicts[key] = Verdicts(np.zeros(rows, np.bool_), np.zeros(rows, np.bool_))
            self._hold(2 * rows)
        return self.verdicts[key]

    def _hold(self, size: int) -> None:
        self._held += size
        self.memory.add(size)


@dataclass(frozen=True)
class Chunk:
    """Rows of one batch that one query still has, as they wait in front of an operator.

    ``number``: of the source batch, by arrival over all streams. ``since_us``: when it was read. ``picked``: the row
    numbers, ascending; None for all. ``entered``: those that came into the segment.
    """

    number: int
    since_us: int
    batch: Batch
    picked: Int64s | None
    entered: Int64s | None

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return self.batch.rows.num_rows if self.picked is None else len(self.picked)

    @property
    def list_bytes(self) -> int:
        """Return the bytes of the lists of row numbers, in which one that is both counts twice."""
        return sum(0 if rows is None else rows.nbytes for rows in (self.picked, self.entered))

    def rows(self, columns: Sequence[str] | None = None) -> Any:
        """Return the rows themselves, of these columns or of all."""
        rows = self.batch.rows if columns is None else self.batch.rows.select(list(columns))
        return rows if self.picked is None else rows.take(self.picked)

    def kept(self, mask: Bools) -> Chunk:
        """Return the chunk of those rows for which the mask is true."""
        if mask.all():
            return self
        picked = np.flatnonzero(mask) if self.picked is None else self.picked[mask]
        return Chunk(self.number, self.since_us, self.batch, picked, self.entered)

    def entering(self) -> Chunk:
        """Return the chunk as it comes into another segment."""
        return Chunk(self.number, self.since_us, self.batch, self.picked, self.picked)

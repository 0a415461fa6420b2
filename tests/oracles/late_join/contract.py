"""Contract of every window join, so that one test holds QJoin and the baselines to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lakehouse.algorithms.late_join.contract import Batch, Log, Outcome


@dataclass(frozen=True)
class Snapshot:
    """A join's whole state as plain values: equal states give equal snapshots.

    ``parts`` are packed arrays by name, in the method's own format.
    """

    method: str
    parts: dict[str, bytes]

    @property
    def size(self) -> int:
        """Return how many bytes the state has."""
        return sum(map(len, self.parts.values()))


class LateJoin(Protocol):
    """A continuous join of two streams.

    Laws of all methods: a batch does what its rows do one by one, restoring a snapshot changes nothing, no pair is
    found twice, and every pair found is one of ``NestedLoop``'s. A method with a log finds the others by repair.
    """

    def process(self, batch: Batch) -> Outcome:
        """Take in rows in processing order; return the pairs found by them, the log and the rows refused."""

    def snapshot(self) -> Snapshot:
        """Return the whole state; later rows do not change it."""

    def restore(self, snapshot: Snapshot) -> None:
        """Become the join that the snapshot was taken of."""

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""


def empty_log() -> Log:
    """Return the log of a method that has none."""
    none = np.empty(0, np.int64)
    return Log(none, np.empty(0, np.int8), none, none, none, none)

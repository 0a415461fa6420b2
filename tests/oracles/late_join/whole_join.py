"""QJoin with its whole state at once, and checks of what must always hold."""

from __future__ import annotations

import numpy as np

from lakehouse.algorithms.late_join.contract import NO_TIME, HeldRows
from lakehouse.algorithms.late_join.kernels.clock import HORIZON, NEWEST, TIME
from lakehouse.algorithms.late_join.kernels.ring import empty_ring
from lakehouse.algorithms.late_join.qjoin import QJoin
from tests.oracles.late_join.contract import Snapshot


def snapshot_of(join: QJoin) -> Snapshot:
    """Return the whole state: rows held in processing order, and the counters."""
    parts = dict[str, bytes]()
    for side, name in enumerate(("left", "right")):
        kept, numbers = join._living(side)
        parts |= {f"{name}_rows": kept.tobytes(), f"{name}_numbers": numbers.tobytes()}
    return Snapshot(join.name, parts | join.counters())


def held_rows(parts: dict[str, bytes], columns: int) -> HeldRows:
    """Return the rows of a snapshot that has so many columns of numbers a row."""
    names = "left", "right"
    entries = [np.frombuffer(parts[f"{name}_rows"], np.int64).reshape(-1, 4) for name in names]
    numbers = [
        np.frombuffer(parts[f"{name}_numbers"]).reshape(len(own), columns)
        for name, own in zip(names, entries, strict=True)
    ]
    side = np.repeat(np.array([0, 1], np.int8), [len(own) for own in entries])
    return HeldRows(side, np.concatenate(entries), np.concatenate(numbers))


class WholeJoin(QJoin):
    """A join whose state is taken and restored as one."""

    @property
    def oldest_row(self) -> int | None:
        """Return the least row id that is held, None of none."""
        ids = [int(kept[:, 3].min()) for kept in (self._living(0)[0], self._living(1)[0]) if len(kept)]
        return min(ids, default=None)

    def snapshot(self) -> Snapshot:
        """Return the whole state."""
        return snapshot_of(self)

    def restore(self, snapshot: Snapshot) -> None:
        """Become the join that the snapshot was taken of; condition, window and policy must be the same.

        Raises:
            ValueError: the snapshot is of another method, condition or window.
        """
        if snapshot.method != self.name:
            raise ValueError(f"expected a snapshot of {self.name}, found one of {snapshot.method}")
        self._ring = empty_ring(256, self.columns)
        self.catch_up(snapshot.parts, held_rows(snapshot.parts, self.columns))

    def check(self) -> None:
        """Raise AssertionError if a horizon is ahead of T, or chains and living rows disagree."""
        sides, state = self._sides, self._state
        assert np.all(sides[:, HORIZON] <= max(state[TIME] - self.window_us, NO_TIME)), "a horizon ahead of T"
        assert state[TIME] <= sides[:, NEWEST].max(), "stream time ahead of every row"
        for side in (0, 1):
            _check_chains(self, side)


def _check_chains(join: QJoin, side: int) -> None:
    entries, _, _, heads, ends = join._ring
    tail, end = ends[side].tolist()
    chained = set()
    for head in heads[:, side].tolist():
        position = head
        while position >= tail:
            assert position < end and position not in chained, "a chain that leaves its ring or meets another"
            chained.add(position)
            following = int(entries[side, position % join._room]["next"])
            assert following < position, "a chain that does not go back in time"
            position = following
    assert chained == set(range(tail, end)), "a row that no chain reaches"

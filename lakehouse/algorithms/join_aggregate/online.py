"""The continuous query: a tick is answered as soon as all streams have passed it, and revised while rows come late.

    ...... horizon ............ last tick ..... until
    log     | revise answers     |  wait         |  the next ticks to answer

Rows that come after a tick they belong to revise it if it is at most ``slack_us`` behind the last tick. What is older
is logged for the repair: such a row counts from the horizon on, and the log says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.join_aggregate.arrivals import NO_TICK, bytes_of, fitted, packed, unpacked
from lakehouse.algorithms.join_aggregate.choice import build
from lakehouse.algorithms.join_aggregate.contract import FAR_FUTURE_US, FAR_PAST_US, Rows, Snapshot
from lakehouse.algorithms.join_aggregate.revision import revised, ticks_in

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Int64s, JoinAggregate, Partials, Shape


@dataclass(frozen=True)
class Log:
    """Rows that belong to ticks behind the horizon: each counts from ``horizon_us`` on until it is repaired. int64."""

    row: Int64s
    side: Int64s
    event_us: Int64s
    horizon_us: Int64s

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Outcome:
    """What became of some rows: first answers, what earlier answers gain, the log, and how many rows were late."""

    answered: Partials
    revised: Partials
    log: Log
    late: int


class Online:
    """A method with its ticks, its slack and its log.

    Cost: the method's, and a pass over the rows held for each call; late rows as ``revised``. State: rows in their
    windows, and those that have left since less than the slack.

    Guarantee: for any order of arrival and any cut into calls, all partials merged with those of ``missing`` for the
    logged rows are the answers of all rows at every tick up to the last; without rows later than the slack there is
    no log.
    """

    def __init__(self, shape: Shape, method: str, every_us: int, slack_us: int) -> None:
        if every_us <= 0 or slack_us < 0:
            raise ValueError(
                f"expected ticks above 0 apart and a slack of at least 0, found {every_us}, {slack_us}"
            )
        self.shape, self._name, self._every, self._slack = shape, method, every_us, slack_us
        self._method: JoinAggregate = build(method, shape)
        self._left, self._last = Rows.none(shape), NO_TICK

    def process(self, rows: Rows, until_us: int | None) -> Outcome:
        """Take rows in, in any order, and answer the ticks up to ``until_us``; None while not all streams have begun.

        ``enter_us`` of a row is its event time. Ticks are whole multiples of ``every_us``; those at which no row is
        in a window have no answer and cost nothing. ``until_us`` never decreases; where it does, nothing is answered.
        """
        rows = fitted(self.shape, rows)
        counted, log, late = self._late(rows)
        held = self.rows()
        nothing = rows[:0]
        touched = ticks_in(
            counted.enter_us[late], np.minimum(counted.leave_us[late], self._last), self._every
        )
        changed = revised(self.shape, held, nothing, counted[late], touched)
        known = Rows.joined([held, counted])
        ticks = self._next(known, until_us)
        answered = self._method.advance(counted, ticks)
        if len(ticks):
            self._last = int(ticks[-1])
        has_left = (known.leave_us < self._last) & (known.leave_us >= self._horizon)
        self._left = known[has_left]
        return Outcome(answered, changed, log, len(late))

    def rows(self) -> Rows:
        """Return all rows that are held."""
        return Rows.joined([self._left, self._method.rows()])

    def snapshot(self) -> Snapshot:
        """Return the whole state; later rows do not change it."""
        method = self._method.snapshot()
        parts = {f"method_{name}": content for name, content in method.parts.items()}
        own = packed("left", self._left) | {"last": np.int64(self._last).tobytes()}
        return Snapshot("Online", own | parts | {"name": method.method.encode()})

    def restore(self, snapshot: Snapshot) -> None:
        """Become the query that the snapshot was taken of, with the same shape and method.

        Raises:
            ValueError: the snapshot is of another method.
        """
        parts = snapshot.parts
        inner = {
            name.removeprefix("method_"): part for name, part in parts.items() if name.startswith("method_")
        }
        self._method.restore(Snapshot(parts["name"].decode(), inner))
        self._left = unpacked("left", self.shape, parts)
        self._last = int(np.frombuffer(parts["last"], np.int64)[0])

    @property
    def bytes(self) -> int:
        """Return the bytes of all arrays that are held."""
        return self._method.bytes + bytes_of(self._left)

    @property
    def _horizon(self) -> int:
        """The first tick that late rows still revise; before every tick while none is answered."""
        if self._last == NO_TICK:
            return NO_TICK
        return -(-(self._last - self._slack) // self._every) * self._every

    def _late(self, rows: Rows) -> tuple[Rows, Log, Int64s]:
        """Return the rows as they count from now on, the log, and the places of those that are late."""
        horizon = self._horizon
        first = -(-rows.enter_us // self._every) * self._every
        logged = np.flatnonzero((first < horizon) & (first <= rows.leave_us))
        late = np.flatnonzero((first <= self._last) & (first <= rows.leave_us))
        counted = replace(rows, enter_us=np.maximum(rows.enter_us, max(horizon, FAR_PAST_US)))
        log = Log(
            rows.row[logged],
            rows.side[logged].astype(np.int64),
            rows.enter_us[logged],
            np.full(len(logged), horizon, np.int64),
        )
        return counted, log, late

    def _next(self, known: Rows, until_us: int | None) -> Int64s:
        """Return the ticks to answer now: those with a row in a window, and the last one, so that time goes on."""
        if until_us is None:
            return np.empty(0, np.int64)
        last = min(until_us, FAR_FUTURE_US) // self._every * self._every
        if last <= self._last:
            return np.empty(0, np.int64)
        first = np.maximum(known.enter_us, self._last + 1)
        ticks = ticks_in(first, np.minimum(known.leave_us, last), self._every)
        return ticks if len(ticks) and ticks[-1] == last else np.append(ticks, last)

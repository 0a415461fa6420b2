"""The continuous query: a tick is answered as soon as all streams have passed it, and revised while rows come late.

    ...... horizon ............ last tick ..... until
    log     | revise answers     |  wait         |  the next ticks to answer

Rows that come after a tick they belong to revise it if it is at most ``slack_us`` behind the last tick. What is older
is logged for the repair: such a row counts from the horizon on, and the log says so.

The state is the last tick, and the rows that entered and have not ended before the horizon: as they count, from tick
to tick, and folded where the method takes folded rows.
"""

from dataclasses import dataclass, replace

import numpy as np

from lakehouse.algorithms.join_aggregate.arrivals import NO_TICK, fitted
from lakehouse.algorithms.join_aggregate.choice import build
from lakehouse.algorithms.join_aggregate.contract import (
    FAR_FUTURE_US,
    FAR_PAST_US,
    Bools,
    Int64s,
    JoinAggregate,
    Partials,
    Revising,
    Rows,
    Shape,
)
from lakehouse.algorithms.join_aggregate.folded import at_ticks, folded, spread, spread_values
from lakehouse.algorithms.join_aggregate.held import HeldRows
from lakehouse.algorithms.join_aggregate.revision import revised, ticks_between, ticks_in, united


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
    """Outcome of some rows: first answers, gains of earlier answers, the log, and the number of late rows.

    ``entered``: the rows that are held now and were not before.
    """

    answered: Partials
    revised: Partials
    log: Log
    late: int
    entered: Rows


class Online:
    """A method with its ticks, its slack and its log.

    Cost: the method's, for rows as they are held; late rows too where it revises answers itself, as ``view_tree`` does,
    else as ``revised``, with the rows held of their keys. Nothing is asked of the other rows. State: the rows in their
    windows, and those that have left since less than the slack; with ``factorised`` and ``view_tree`` not the rows but
    what a side, key and group has per first and last tick.

    Guarantee: for any order of arrival and any cut into calls, all partials merged with those of ``missing`` for the
    logged rows are the answers of all rows at every tick up to the last; without rows later than the slack there is
    no log.
    """

    def __init__(self, shape: Shape, method: str, every_us: int, slack_us: int) -> None:
        if every_us <= 0 or slack_us < 0:
            raise ValueError(
                f"expected ticks above 0 apart and a slack of at least 0, found {every_us}, {slack_us}"
            )
        self.shape, self._with, self._every, self._slack = shape, method, every_us, slack_us
        self._is_folded = method in ("factorised", "view_tree")
        self._held_as = spread(shape) if self._is_folded else shape
        self._method: JoinAggregate = build(self._with, self._held_as, slack_us)
        self._revising = self._method if isinstance(self._method, Revising) else None
        self._held, self._last = HeldRows(self._held_as), NO_TICK
        # Ticks after the last at which a row that is held is in its window, as intervals.
        self._due = np.empty(0, np.int64), np.empty(0, np.int64)

    def process(self, rows: Rows, until_us: int | None) -> Outcome:
        """Take rows in, in any order, and answer the ticks up to ``until_us``; None while not all streams have begun.

        ``enter_us`` of a row is its event time. Ticks are whole multiples of ``every_us``; those at which no row is
        in a window have no answer and cost nothing. ``until_us`` never decreases; where it does, nothing is answered.
        """
        rows = fitted(self.shape, rows)
        counted, log, is_late = self._late(rows)
        late, others = self._as_held(counted[is_late]), self._as_held(counted[~is_late])
        changed = self._revised(late) if len(late) else Partials.none(self.shape)
        entered = Rows.joined([late, others])
        self._look_ahead(entered)
        ticks = self._next(until_us)
        answered = self._method.advance(others if self._revising else entered, ticks)
        if len(ticks):
            self._last = int(ticks[-1])
        self._held.drop(self.alive_from_us)
        entered = entered[entered.leave_us >= self.alive_from_us]
        self._held.add(entered)
        return Outcome(answered, changed, log, int(np.count_nonzero(is_late)), entered)

    def rows(self) -> Rows:
        """Return all rows that are held, as they are held."""
        return self._held.all()

    @property
    def held(self) -> int:
        """Return how many rows are held, each of those that were folded counted."""
        return self._held.weight

    @property
    def last_us(self) -> int:
        """Return the last tick that was answered; a time before all others while there is none."""
        return self._last

    def catch_up(self, last_us: int, rows: Rows) -> None:
        """Become the query whose last tick is this one, and which holds these rows beside those that it holds.

        ``rows`` are what some calls let enter; those that have ended since are gone, of both.
        """
        ticks = np.array([last_us] if last_us > self._last else [], np.int64)
        is_late = rows.enter_us <= self._last
        if self._revising:
            self._revised(rows[is_late])
            self._method.advance(rows[~is_late], ticks)
        else:
            self._method.advance(rows[rows.leave_us >= last_us], ticks)
        self._last = last_us
        self._held.drop(self.alive_from_us)
        self._held.add(rows[rows.leave_us >= self.alive_from_us])
        self._look_ahead(rows)

    @property
    def held_as(self) -> Shape:
        """Return the shape of the rows that are held."""
        return self._held_as

    @property
    def name(self) -> str:
        """Return the method and the shape of the rows that are held, as its state on disk has them."""
        return f"Online {self._with} {self._held_as}"

    def _as_held(self, rows: Rows) -> Rows:
        rows = at_ticks(rows, self._every)
        return folded(self._held_as, spread_values(self.shape, rows)) if self._is_folded else rows

    def _revised(self, late: Rows) -> Partials:
        """Return what earlier answers gain by late rows."""
        touched = ticks_in(late.enter_us, np.minimum(late.leave_us, self._last), self._every)
        if self._revising:
            return self._revising.revise(late, touched)
        return revised(self._held_as, self._held.with_keys_of(late), late[:0], late, touched)

    @property
    def alive_from_us(self) -> int:
        """Return the time before which rows have ended: none of them is held."""
        return max(self._horizon, FAR_PAST_US)

    @property
    def _horizon(self) -> int:
        """The first tick that late rows still revise; before every tick while none is answered."""
        if self._last == NO_TICK:
            return NO_TICK
        return -(-(self._last - self._slack) // self._every) * self._every

    def _late(self, rows: Rows) -> tuple[Rows, Log, Bools]:
        """Return the rows as they count from now on, the log, and which rows are late."""
        horizon = self._horizon
        first = -(-rows.enter_us // self._every) * self._every
        logged = np.flatnonzero((first < horizon) & (first <= rows.leave_us))
        is_late = (first <= self._last) & (first <= rows.leave_us)
        counted = replace(rows, enter_us=np.maximum(rows.enter_us, max(horizon, FAR_PAST_US)))
        log = Log(
            rows.row[logged],
            rows.side[logged].astype(np.int64),
            rows.enter_us[logged],
            np.full(len(logged), horizon, np.int64),
        )
        return counted, log, is_late

    def _look_ahead(self, rows: Rows) -> None:
        """Note the ticks after the last at which rows are in their windows."""
        first = np.maximum(rows.enter_us, self._last + 1)
        due = united(first, rows.leave_us, self._every)
        begins, ends = (np.concatenate(pair) * self._every for pair in zip(self._due, due, strict=True))
        begins, ends = united(begins, ends, self._every)
        begins = np.maximum(begins, self._last // self._every + 1)
        self._due = begins[begins <= ends], ends[begins <= ends]

    def _next(self, until_us: int | None) -> Int64s:
        """Return the ticks to answer now: those with a row in a window, and the last one, so that time goes on."""
        if until_us is None:
            return np.empty(0, np.int64)
        last = min(until_us, FAR_FUTURE_US) // self._every * self._every
        if last <= self._last:
            return np.empty(0, np.int64)
        begins, ends = self._due
        is_due = begins <= last // self._every
        ticks = ticks_between(begins[is_due], np.minimum(ends[is_due], last // self._every), self._every)
        return ticks if len(ticks) and ticks[-1] == last else np.append(ticks, last)

"""The baseline: rows wait for K, leave in order of event time, and are joined in order.

Symbols: K the slack; T stream time, the newest event time of the side that is behind. A row leaves the buffer once
``ts + K <= T``. A row that comes later than K is out of order all the same: it is joined with what its window still
holds, and pairs that this misses are lost; there is no log.

    LargestDelay    MP-K-slack: K is the largest delay so far, of either side against its own newest row
    RecallModel     adaptive K-slack: the least K for which a model of recall reaches what the next step needs

Cost: a row O(log rows waiting) and its join; memory K of both sides beyond their windows.
Guarantee: all pairs if no row is later than K; ``flush`` ends the streams. A pair waits until its later row leaves.

Reference: Mutschler and Philippsen, MP-K-slack; Ji et al., quality-driven disorder handling for sliding window joins,
with equal selectivity for late rows (EqSel). Differs from them: one K for both sides, which waits for the side that is
behind and so needs no second buffer; rows out of order are joined too, in the baseline's favour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lakehouse.algorithms.late_join.contract import NO_TIME, Batch, Outcome, online_pairs
from lakehouse.algorithms.late_join.policy_paper import step_target, window_rows
from lakehouse.algorithms.late_join.qjoin import CHUNK
from lakehouse.algorithms.late_join.slack_grid import slack_grid
from tests.oracles.late_join.constant_slack import ConstantSlack
from tests.oracles.late_join.contract import Snapshot, empty_log
from tests.oracles.late_join.k_slack_kernels import (
    LARGEST_DELAY,
    NEWEST_LEFT,
    NEWEST_RIGHT,
    NEXT_CHOICE,
    NUMBER,
    SLACK,
    TIME,
    WAITING,
    release,
    reorder,
    take_all,
)
from tests.oracles.late_join.whole_join import WholeJoin

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.conditions import Condition
    from lakehouse.algorithms.late_join.contract import Float64s, Int64s


class Waiting(Protocol):
    """How long rows wait: chosen every ``step_us`` of stream time, growing with the largest delay if ``grows``."""

    grows: bool
    step_us: int
    # The bins in which delays are counted.
    grid: Int64s

    def choose(self, delays: Float64s, largest_us: int, produced: int, seconds: float, window_us: int) -> int:
        """Return K from the rows by side and delay, the largest delay and the pairs of the last step."""

    def snapshot(self) -> bytes:
        """Return the whole state."""

    def restore(self, packed: bytes) -> None:
        """Become what the snapshot was taken of."""


class LargestDelay:
    """MP-K-slack's K; ``at_least_us`` if it is known beforehand."""

    grows = True

    def __init__(self, at_least_us: int = 0, step_us: int = 1_000_000) -> None:
        self.at_least_us, self.step_us = at_least_us, step_us
        self.grid = slack_grid(10_000)

    def choose(self, delays: Float64s, largest_us: int, produced: int, seconds: float, window_us: int) -> int:
        """Return the largest delay so far."""
        return max(largest_us, self.at_least_us)

    def snapshot(self) -> bytes:
        """Return nothing: there is no state."""
        return b""

    def restore(self, packed: bytes) -> None:
        """Do nothing."""


class RecallModel:
    """Adaptive K-slack: the least K whose modelled recall reaches the target of the next step."""

    grows = False

    def __init__(
        self, recall: float, period_us: int, step_us: int = 1_000_000, basic_us: int = 10_000
    ) -> None:
        if not 0 < recall < 1 or step_us < 1 or period_us % step_us:
            raise ValueError(
                f"expected a recall in (0, 1), a step dividing the period, found {recall}, {step_us}"
            )
        self.recall, self.step_us, self.basic_us = recall, step_us, basic_us
        self.grid = slack_grid(basic_us)
        self._produced = np.zeros(period_us // step_us)
        self._chosen = 0

    def choose(self, delays: Float64s, largest_us: int, produced: int, seconds: float, window_us: int) -> int:
        """Return K; the largest delay while nothing has been produced."""
        slacks = self.grid[: int(np.searchsorted(self.grid, largest_us)) + 1]
        modelled = self.modelled(delays, slacks, seconds, window_us)
        self._produced = np.concatenate([self._produced[1:], [produced]])
        now = float(modelled[min(int(np.searchsorted(slacks, self._chosen)), len(slacks) - 1)])
        target = step_target(self.recall, self._produced, produced / now if now > 0 else 0.0)
        enough = np.flatnonzero(modelled >= target)
        self._chosen = int(slacks[enough[0]] if len(enough) else slacks[-1])
        return self._chosen

    def modelled(self, delays: Float64s, slacks: Int64s, seconds: float, window_us: int) -> Float64s:
        """Return recall by K: the share of rows in order, times the share of the window that is there in time."""
        rows = delays.sum(axis=1)
        rates = rows / max(seconds, 1e-6)
        known = delays.cumsum(axis=1)[:, : len(slacks)] / np.maximum(rows, 1.0)[:, None]
        whole = rates * window_us / 1e6
        there = np.array(
            [
                [self._window(delays[side], rates[side], window_us, slack) for slack in slacks]
                for side in (0, 1)
            ]
        )
        most = rates[0] * whole[1] + rates[1] * whole[0]
        if most <= 0:
            return np.zeros(len(slacks))
        recall: Float64s = (rates[0] * known[0] * there[1] + rates[1] * known[1] * there[0]) / most
        return recall

    def snapshot(self) -> bytes:
        """Return the pairs of each step of the last period, and K."""
        return np.append(self._produced, self._chosen).tobytes()

    def restore(self, packed: bytes) -> None:
        """Become what the snapshot was taken of."""
        *produced, chosen = np.frombuffer(packed).tolist()
        self._produced, self._chosen = np.array(produced), int(chosen)

    def _window(self, by_delay: Float64s, rate: float, window_us: int, slack: int) -> float:
        # After waiting for K a row's delay counts from K on.
        skipped = int(np.searchsorted(self.grid, slack))
        later = np.concatenate([[by_delay[: skipped + 1].sum()], by_delay[skipped + 1 :], np.zeros(skipped)])
        return float(window_rows(later, self.grid, rate, window_us, self.basic_us, np.zeros(1))[0])


class KSlack:
    """The join that waits; the same contract as ``QJoin``, with waits instead of a log.

    >>> from lakehouse.algorithms.late_join.conditions import Equality
    >>> join = KSlack(Equality(), window_us=10, waiting=LargestDelay(at_least_us=20))
    >>> rows = Batch.of([0, 1, 0, 1], [0, 0, 20, 20], key=[7] * 4)
    >>> found = join.process(rows).pairs
    >>> found.left.tolist(), found.right.tolist(), found.wait_us.tolist()
    ([0], [1], [20])
    """

    def __init__(self, condition: Condition, window_us: int, waiting: Waiting) -> None:
        self.window_us, self.waiting = window_us, waiting
        # One microsecond, so that of two rows at one time the second still meets what is a window older.
        self._join = WholeJoin(condition, window_us, ConstantSlack(1, 1))
        self._state = np.zeros(8, np.int64)
        self._state[[NEWEST_LEFT, NEWEST_RIGHT, TIME]] = NO_TIME
        self._state[NEXT_CHOICE] = NO_TIME + 1
        self._state[SLACK] = getattr(waiting, "at_least_us", 0)
        self._heap = np.empty((256, 2), np.int64)
        self._delays = np.zeros((2, len(waiting.grid) + 1))
        # Rows from the first that still waits, and T when each came; rows that left, from the first in a window.
        self._rows = Batch.of([], [], numbers=np.empty((0, self._join.columns)))
        self._came = np.empty(0, np.int64)
        self._gone = np.empty((0, 3), np.int64)
        self._gone_from, self._produced, self._chosen_at = 0, 0, NO_TIME
        self._held: list[tuple[int, int]] = []

    def process(self, batch: Batch) -> Outcome:
        """Take rows in and join those whose wait is over."""
        parts = [self._process_chunk(batch[at : at + CHUNK]) for at in range(0, len(batch), CHUNK)]
        columns = [np.concatenate([np.empty(0, np.int64), *each]) for each in zip(*parts, strict=True)]
        if not parts:
            columns = [np.empty(0, np.int64)] * 4
        return Outcome(online_pairs(*columns), empty_log(), np.empty(0, np.int64))

    def flush(self) -> Outcome:
        """End both streams: every row that still waits is joined now."""
        numbers = take_all(self._state, self._heap)
        released = np.column_stack([numbers, np.full(len(numbers), self._state[TIME])])
        columns = self._join_released(released, int(self._state[NUMBER]) - len(self._came))
        return Outcome(online_pairs(*columns), empty_log(), np.empty(0, np.int64))

    @property
    def slack_us(self) -> int:
        """Return K."""
        return int(self._state[SLACK])

    @property
    def held(self) -> int:
        """Return how many rows wait or lie in a window."""
        return int(self._state[WAITING]) + self._join.held

    def held_over_time(self) -> Int64s:
        """Return (stream time, rows held), one row per step."""
        return np.array(self._held, np.int64).reshape(-1, 2)

    def snapshot(self) -> Snapshot:
        """Return the whole state: rows that wait, rows in windows, clocks, and what the choice of K remembers."""
        waiting = self._heap[: self._state[WAITING]]
        own = np.array([self._gone_from, self._produced, self._chosen_at], np.int64)
        parts = {
            "state": self._state,
            "own": own,
            "delays": self._delays,
            "came": self._came,
            "gone": self._gone,
        }
        parts |= {f"row_{name}": getattr(self._rows, name) for name in (*_COLUMNS, "numbers")}
        parts |= {"heap": waiting[np.lexsort((waiting[:, 1], waiting[:, 0]))]}
        packed = {name: np.ascontiguousarray(part).tobytes() for name, part in parts.items()}
        join = {f"join_{name}": part for name, part in self._join.snapshot().parts.items()}
        return Snapshot(self._name(), packed | join | {"waiting": self.waiting.snapshot()})

    def restore(self, snapshot: Snapshot) -> None:
        """Become the join that the snapshot was taken of; condition, window and choice of K must be the same."""
        if snapshot.method != self._name():
            raise ValueError(f"expected a snapshot of {self._name()}, found one of {snapshot.method}")
        whole = {
            name: np.frombuffer(snapshot.parts[name], np.int64).copy() for name in ("state", "own", "came")
        }
        self._state, self._came = whole["state"], whole["came"]
        self._gone_from, self._produced, self._chosen_at = whole["own"].tolist()
        self._delays = np.frombuffer(snapshot.parts["delays"]).reshape(2, -1).copy()
        self._gone = np.frombuffer(snapshot.parts["gone"], np.int64).reshape(-1, 3).copy()
        self._heap = np.frombuffer(snapshot.parts["heap"], np.int64).reshape(-1, 2).copy()
        rows = {
            name: np.frombuffer(snapshot.parts[f"row_{name}"], kind).copy() for name, kind in _COLUMNS.items()
        }
        numbers = np.frombuffer(snapshot.parts["row_numbers"])
        self._rows = Batch(**rows, numbers=numbers.reshape(len(self._came), self._join.columns))
        inner = {name[5:]: part for name, part in snapshot.parts.items() if name.startswith("join_")}
        self._join.restore(Snapshot(self._join.snapshot().method, inner))
        self.waiting.restore(snapshot.parts["waiting"])
        self._held = []

    def check(self) -> None:
        """Raise AssertionError if a row waits too long, the heap is out of order, or the join's own checks fail."""
        waiting = self._heap[: self._state[WAITING], 0]
        parents = waiting[(np.arange(len(waiting)) - 1) // 2]
        assert np.all(parents[1:] <= waiting[1:]), "a heap out of order"
        assert np.all(waiting > self._state[TIME] - self._state[SLACK]), "a row that waits longer than K"
        assert len(self._came) == len(self._rows), "a row without the time at which it came"
        self._join.check()

    def _process_chunk(self, batch: Batch) -> list[Int64s]:
        first, at = int(self._state[NUMBER]) - len(self._came), 0
        base = len(self._came)
        self._rows = _joined(self._rows, batch, self._join.columns)
        self._came = np.concatenate([self._came, np.empty(len(batch), np.int64)])
        room = np.empty((int(self._state[WAITING]) + len(batch), 2), np.int64)
        room[: self._state[WAITING]] = self._heap[: self._state[WAITING]]
        self._heap, found = room, []
        columns = batch.side.astype(np.int64), batch.event_us
        while at < len(batch):
            released = np.empty((len(room), 2), np.int64)
            out = released, self._came[base:]
            how = self.waiting.grows, self.waiting.grid
            at, left = reorder(columns, at, self._state, room, self._delays, *how, out)
            found.append(self._join_released(released[:left], first))
            if self._state[TIME] >= self._state[NEXT_CHOICE]:
                found.append(self._choose(first))
        self._forget(first)
        return [np.concatenate(each) for each in zip(*found, strict=True)]

    def _choose(self, first: int) -> list[Int64s]:
        time, step = int(self._state[TIME]), self.waiting.step_us
        seconds = step / 1e6 if self._chosen_at == NO_TIME else (time - self._chosen_at) / 1e6
        largest = int(self._state[LARGEST_DELAY])
        self._state[SLACK] = self.waiting.choose(
            self._delays, largest, self._produced, max(seconds, 1e-6), self.window_us
        )
        self._state[NEXT_CHOICE] = time - time % step + step
        self._chosen_at, self._produced = time, 0
        self._delays.fill(0.0)
        released = np.empty((int(self._state[WAITING]), 2), np.int64)
        left = release(self._state, self._heap, released, 0)
        found = self._join_released(released[:left], first)
        self._held.append((time, self.held))
        return found

    def _join_released(self, released: Int64s, first: int) -> list[Int64s]:
        """Join rows in the order in which they left; return left and right ids, times and waits of their pairs."""
        at = released[:, 0] - first
        rows = self._rows[at]
        gone = np.column_stack([rows.row, self._came[at], released[:, 1]])
        numbers = self._gone_from + len(self._gone) + np.arange(len(gone))
        self._gone = np.concatenate([self._gone, gone])
        pairs = self._join.process(
            Batch.of(
                rows.side,
                rows.event_us,
                row=numbers,
                key=rows.key,
                missing=rows.missing,
                numbers=rows.numbers,
            )
        ).pairs
        self._produced += len(pairs)
        left, right = (self._gone[each - self._gone_from] for each in (pairs.left, pairs.right))
        emitted = np.maximum(left[:, 2], right[:, 2])
        return [left[:, 0], right[:, 0], pairs.event_us, emitted - np.maximum(left[:, 1], right[:, 1])]

    def _forget(self, first: int) -> None:
        """Drop rows that have left, and those that have left every window."""
        waiting = self._heap[: self._state[WAITING], 1]
        since = int(waiting.min(initial=int(self._state[NUMBER]))) - first
        self._rows, self._came = self._rows[since:], self._came[since:]
        oldest = self._join.oldest_row
        since = len(self._gone) if oldest is None else oldest - self._gone_from
        self._gone, self._gone_from = self._gone[since:], self._gone_from + since

    def _name(self) -> str:
        waiting = self.waiting
        return f"KSlack {type(waiting).__name__} {self._join.condition} within {self.window_us} us"


def _joined(rows: Batch, more: Batch, columns: int) -> Batch:
    def both(name: str) -> Any:
        return np.concatenate([getattr(rows, name), getattr(more, name)])

    plain = {name: both(name) for name in _COLUMNS}
    return Batch(**plain, numbers=np.concatenate([rows.numbers, more.numbers[:, :columns]]))


_COLUMNS: dict[str, Any] = {
    "side": np.int8,
    "event_us": np.int64,
    "arrival_us": np.int64,
    "row": np.int64,
    "key": np.int64,
    "missing": np.bool_,
    "source": np.int64,
}

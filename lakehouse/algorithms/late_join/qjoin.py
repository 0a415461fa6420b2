"""QJoin: each row joins at once with what the other side still holds; what it may have missed is logged.

What it answers: the pairs of two streams within a window, each row's pairs the moment it is processed. No row waits.

Symbols: w the window; T the stream time, ``min`` of both sides' newest event times; d_L, d_R the slacks; H_L, H_R the
horizons, below which a side's rows are gone.

    after each row     T = min(newest left, newest right)
                       H_L = max(H_L, T - d_L - w),   H_R = max(H_R, T - d_R - w)
    a row x            joins the other side's rows y with y.ts > H_other, then is kept if x.ts > H_own
                       is logged with H_other if x.ts - w <= H_other

             kept rows of one side
    gone ---|H----------- w + d ----------->|T    x joins [x.ts - w, x.ts + w] of the other side

Guarantee: the pairs found, and those between logged rows and the rows processed before them that are not newer than the
logged horizon (``repair.py``), are disjoint and together all pairs, whatever the slacks were.

Cost: a row O(rows in the cells that it probes), whatever the window; memory w + d of each side's rows, and their number
rounded up to a power of two. State: 32 bytes a kept row, 8 more per column of numbers, and ``counters``: clocks, counts
and the policy's state. A batch changes the counters and adds its kept rows (``entered``); what leaves follows from the
horizons.

Reference: Wei et al., QJoin, sections 1.2 and 1.4. Differs from the paper: horizons only grow, so that a later,
larger slack cannot make the log wrong; rows that may have missed partners are logged; a silent side does not stop T;
rows with a clock in the future are refused. The slacks come from a policy: the paper's is ``PaperSlack``, ours
``NeededSlack``.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lakehouse.algorithms.late_join.conditions import Condition
from lakehouse.algorithms.late_join.contract import (
    NO_TIME,
    Batch,
    Clock,
    HeldRows,
    Int64s,
    Log,
    Outcome,
    Pairs,
    online_pairs,
    read_only,
)
from lakehouse.algorithms.late_join.kernels.clock import (
    FIRST_ARRIVAL,
    HORIZON,
    KEPT_SINCE,
    LIVE,
    LOGGED,
    NEWEST,
    NEXT_CHOICE,
    PROCESSED,
    REFUSED,
    RISKED,
    SLACK,
    TIME,
    TRACE,
    UNUSABLE,
    empty_sides,
    hold_for_silent,
    raise_horizons,
    sides_of,
    slacks_of,
)
from lakehouse.algorithms.late_join.kernels.qjoin import BLOCK, join_rows
from lakehouse.algorithms.late_join.kernels.ring import (
    count_living,
    empty_ring,
    expire,
    list_living,
    move_living,
    put_back,
)
from lakehouse.algorithms.late_join.policy import SlackPolicy
from lakehouse.algorithms.late_join.probing import Plan

# Rows taken in at a time: output and trace of one chunk stay in the processor's caches.
CHUNK = 16_384
# Positions in a ring are 32 bits wide: they begin at 0 again long before they end.
LAST_POSITION = 2**30


class QJoin:
    """The symmetric window join of two late streams, with a log for exact repair.

    >>> from lakehouse.algorithms.late_join.conditions import Equality
    >>> from lakehouse.algorithms.late_join.contract import Batch
    >>> from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
    >>> join = QJoin(Equality(), window_us=10, policy=NeededSlack(0.9, period_us=1000))
    >>> found = join.process(Batch.of([0, 1, 0, 1, 1], [0, 0, 50, 50, 5], key=[7] * 5))
    >>> found.pairs.left.tolist(), found.pairs.right.tolist()
    ([0, 2], [1, 3])
    >>> found.log.row.tolist(), found.log.horizon_us.tolist()
    ([4], [40])
    """

    def __init__(
        self, condition: Condition, window_us: int, policy: SlackPolicy, clock: Clock | None = None
    ) -> None:
        if window_us < 0:
            raise ValueError(f"expected a window of at least 0 us, found {window_us}")
        self.condition, self.window_us, self.policy = condition, window_us, policy
        self._plan = Plan.of(condition)
        self._rules = (*(clock or Clock()).limits(), window_us)
        self._sides = empty_sides()
        self._state = np.zeros(7, np.int64)
        self._state[[TIME, FIRST_ARRIVAL]] = NO_TIME
        self._state[NEXT_CHOICE] = NO_TIME + 1
        # Time and rows held at choices of slack: the rows held over time.
        self._held: list[tuple[int, int]] = []
        self._ring = empty_ring(256, self.columns)
        # Pairs, trace and log of a chunk: memory that is asked for anew has to be mapped anew.
        self._found, self._places = np.empty((3, CHUNK), np.int64), np.empty(CHUNK, np.uint64)
        self._trace, self._log = np.empty(CHUNK, TRACE), np.empty((6, CHUNK), np.int64)
        policy.begin(window_us)
        self._choose(0)

    def process(self, batch: Batch) -> Outcome:
        """Join rows in processing order; cost as above.

        Raises ValueError when the batch lacks columns of numbers that the condition reads.
        """
        cells, usable = map(read_only, self._plan.cells(batch))
        refused = np.zeros(len(batch), np.bool_)
        pairs: list[Int64s] = []
        logs: list[Int64s] = []
        for start in range(0, len(batch), CHUNK):
            part = slice(start, start + CHUNK)
            numbers = batch.numbers[part, : self._plan.columns]
            columns = batch.side, batch.event_us, batch.arrival_us, batch.row, cells
            own = read_only(numbers), usable[part], batch.source[part]
            rows = *(column[part] for column in columns), *own
            self._process_chunk(rows, refused[part], pairs, logs)
        return Outcome(_as_pairs(pairs), _as_log(logs), np.flatnonzero(refused))

    def _process_chunk(
        self, rows: tuple[Any, ...], refused: Any, pairs: list[Int64s], logs: list[Int64s]
    ) -> None:
        at = 0
        plan = self._plan.shape, self._plan.reach, self._plan.offsets, self._plan.comparisons
        grid = self.policy.grid
        while at < len(refused):
            self._make_room(min(BLOCK, len(refused) - at))
            needed = np.zeros((2, len(grid) + 1), np.int64)
            began, out = at, (self._found, self._places, self._trace, refused, self._log)
            need, state = (grid, needed, self.policy.watch), (self._sides, self._state, self._ring)
            at, found, logged, self._found, self._places = join_rows(
                rows, at, self._rules, plan, *state, need, out
            )
            pairs.append(self._found[:, :found].copy())
            logs.append(self._log[:, :logged].copy())
            done, is_refused = self._trace[began:at], refused[began:at]
            self.policy.observe(done[~is_refused] if is_refused.any() else done, needed)
            self._choose_if_due()

    def advance(self, newest_us: tuple[int | None, int | None]) -> None:
        """Tell the newest event time of each side that is known elsewhere, so that a quiet bucket's rows expire."""
        for side, time_us in enumerate(newest_us):
            if time_us is not None:
                self._sides[side, NEWEST] = max(self._sides[side, NEWEST], time_us)
        before, newest = self._state[TIME], self._sides[:, NEWEST].min()
        self._state[TIME] = max(before, newest)
        # Only where T moved: a look at each cut would make the result depend on how rows are cut into batches.
        if newest > before and self.policy.watch[0].shape[1]:
            hold_for_silent(self.policy.watch, self._sides, self._state)
        raise_horizons(self.window_us, self._sides, self._state)
        self._choose_if_due()

    @property
    def time_us(self) -> int | None:
        """Return T, None before both sides have a time."""
        return _or_none(self._state[TIME])

    @property
    def horizons_us(self) -> tuple[int | None, int | None]:
        """Return the horizon of each side; rows at or below it are gone."""
        return _or_none(self._sides[0, HORIZON]), _or_none(self._sides[1, HORIZON])

    @property
    def newest_us(self) -> tuple[int | None, int | None]:
        """Return the newest event time of each side."""
        return _or_none(self._sides[0, NEWEST]), _or_none(self._sides[1, NEWEST])

    @property
    def slacks_us(self) -> tuple[int, int]:
        """Return the slack of each side, longer by what it waits for silent sources of the other side."""
        left, right = slacks_of(self.window_us, self._sides, self._state).tolist()
        return left, right

    @property
    def held(self) -> int:
        """Return how many rows both sides hold now."""
        return int(count_living(self._sides, self._ring))

    @property
    def columns(self) -> int:
        """Return how many columns of numbers the condition reads, and a kept row has."""
        return self._plan.columns

    @property
    def counts(self) -> dict[str, int]:
        """Return rows processed, refused, without a usable key, logged, and late for a side that was silent."""
        sides, state = self._sides.sum(axis=0), self._state
        return {
            "processed": int(state[PROCESSED]),
            "refused": int(state[REFUSED]),
            "unusable": int(sides[UNUSABLE]),
            "logged": int(sides[LOGGED]),
            "late_after_silence": int(sides[RISKED]),
        }

    def held_over_time(self) -> Int64s:
        """Return (stream time, rows held), one row per count at a choice of slack since it was begun."""
        return np.array(self._held, np.int64).reshape(-1, 2)

    def counters(self) -> dict[str, bytes]:
        """Return the state without the rows: clocks and counts, and the policy's own."""
        parts = {"sides": self._sides.tobytes(), "state": self._state.tobytes()}
        return parts | {"policy": self.policy.snapshot()}

    def catch_up(self, counters: Mapping[str, bytes], rows: HeldRows) -> None:
        """Become the join that has these counters, and holds these rows beside those that are held already.

        ``rows`` entered after the others. Those at or below the horizons, of both, are gone.
        """
        self._sides = sides_of(counters["sides"])
        self._state = np.frombuffer(counters["state"], np.int64).copy()
        self.policy.restore(counters["policy"])
        self._held = []
        rows = rows.after(self._sides[:, HORIZON])
        self._make_room(len(rows))
        for side in (0, 1):
            own = rows[rows.side == side]
            put_back(side, self._ring, own.entries, own.numbers)

    def entered(self, batch: Batch, refused: Int64s) -> tuple[Int64s, HeldRows]:
        """Return which rows of the batch just processed are held now, by position and as they are held.

        ``refused`` as the batch's outcome has them.
        """
        cells, usable = self._plan.cells(batch)
        is_processed = np.ones(len(batch), np.bool_)
        is_processed[refused] = False
        number = self._state[PROCESSED] - np.count_nonzero(is_processed) + np.cumsum(is_processed) - 1
        is_held = is_processed & usable & (batch.event_us > self._sides[batch.side, HORIZON])
        at = np.flatnonzero(is_held)
        entries = np.column_stack([column[at] for column in (number, batch.event_us, cells, batch.row)])
        return at, HeldRows(batch.side[at], entries, batch.numbers[at, : self.columns])

    def clear_held_over_time(self) -> None:
        """Begin ``held_over_time`` anew."""
        self._held = []

    def _living(self, side: int) -> tuple[Int64s, Any]:
        """Return number, time, cell and id of a side's living rows in processing order, and their numbers."""
        tail, head = self._ring[4][side].tolist()
        most = head - tail
        kept, numbers = np.empty((most, 4), np.int64), np.empty((most, self._plan.columns))
        living = list_living(self._sides, side, self._ring, kept, numbers)
        return kept[:living], numbers[:living]

    def _choose_if_due(self) -> None:
        time = int(self._state[TIME])
        if time != NO_TIME and time >= self._state[NEXT_CHOICE]:
            self._choose(time)

    def _choose(self, time: int) -> None:
        self._sides[:, SLACK] = self.policy.choose(time)
        if self._state[TIME] != NO_TIME:
            step = self.policy.step_us
            self._state[NEXT_CHOICE] = time - time % step + step
            raise_horizons(self.window_us, self._sides, self._state)
            # Counting costs the rows held: only when half as many came since the last time.
            if 2 * self._state[KEPT_SINCE] >= self._state[LIVE]:
                self._state[LIVE], self._state[KEPT_SINCE] = self.held, 0
                self._held.append((time, int(self._state[LIVE])))

    def _make_room(self, rows: int) -> None:
        """See to it that so many rows of a side fit: make the rings anew, larger if they are full."""
        (left, left_end), (right, right_end) = self._ring[4].tolist()
        filled = max(left_end - left, right_end - right)
        if filled + rows > self._room or max(left_end, right_end) > LAST_POSITION:
            expire(self._sides, self._ring[0], self._ring[4])
            living = max(len(self._living(side)[0]) for side in (0, 1))
            # With a quarter to spare: a ring that is nearly full would be made anew for every few rows.
            new = empty_ring(max(self._room, _power((living + rows) * 4 // 3 + 1)), self.columns)
            move_living(self._sides, self._ring, new)
            self._ring = new

    @property
    def _room(self) -> int:
        return int(self._ring[0].shape[1])

    @property
    def name(self) -> str:
        """Return the method, with the condition and the window, as states have it."""
        return f"QJoin {self.condition} within {self.window_us} us"


def _power(least: int) -> int:
    return max(256, 1 << (least - 1).bit_length())


def _or_none(time: np.int64) -> int | None:
    return None if time == NO_TIME else int(time)


def _as_pairs(parts: list[Int64s]) -> Pairs:
    left, right, event = _joined(parts, 3)
    return online_pairs(left, right, event)


def _as_log(parts: list[Int64s]) -> Log:
    row, side, *times = _joined(parts, 6)
    return Log(row, side.astype(np.int8), *times)


def _joined(parts: list[Int64s], columns: int) -> Int64s:
    """Return all parts as one; a batch of one chunk has one, which is not copied once more."""
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty((columns, 0), np.int64), *parts], axis=1)

"""Contract of every window join: the shapes that go in and out, and the verbs they share.

Two streams, left and right (R and S in the paper), are joined on ``|left.event_us - right.event_us| <= window_us``
and a condition. Times are int64 microseconds. Rows arrive in processing order, both sides in one batch.

    row ............ (side, event_us, arrival_us, row id, key, numbers)
    pair ........... a left and a right row that join; found online or by repair, each once
    log ............ rows that may have missed partners, with what the repair must know
    stream time T .. the newest event time of the side that is behind
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LEFT, RIGHT = 0, 1
# Before any time is known; far from the ends of int64, so that sums with windows and slacks stay inside.
NO_TIME = -(2**61)
# The source of a row that tells none: it is never waited for.
NO_SOURCE = -(2**63)
# The upper word of an exact number that is missing.
MISSING = -(2**63)
FAR_PAST_US, FAR_FUTURE_US = -(2**60), 2**60


def read_only(column: Any) -> Any:
    """Return a column as compiled loops take it, whoever made it: in one piece, and not to be changed.

    A loop is compiled for each combination of these properties that it meets, which takes seconds.
    """
    fixed = np.ascontiguousarray(column).view()
    fixed.flags.writeable = False
    return fixed


@dataclass(frozen=True)
class Batch:
    """Rows of both streams in processing order; made by ``Batch.of``, which checks and fills in.

    ``side`` int8: 0 left, 1 right. ``row`` int64: an id that is unique within its side. ``key`` int64: equal
    numbers are equal keys. ``missing``: rows whose key is null. ``numbers`` float64, rows x columns: what bands,
    distances and comparisons read; NaN where there is no number. An exact number has two columns with the bits of its
    words, the lower one first, which is how Arrow has decimals; ``MISSING`` in the upper one where there is none.
    Exact numbers are within +-2^125. ``source`` int64: who sent the row, for policies
    that watch sources; ``NO_SOURCE`` where nobody knows. Payload stays outside: pairs carry row ids.
    """

    side: npt.NDArray[np.int8]
    event_us: Int64s
    arrival_us: Int64s
    row: Int64s
    key: Int64s
    missing: Bools
    numbers: Float64s
    source: Int64s

    @classmethod
    def of(
        cls,
        side: Any,
        event_us: Any,
        *,
        arrival_us: Any = None,
        row: Any = None,
        key: Any = None,
        missing: Any = None,
        numbers: Any = None,
        source: Any = None,
    ) -> Self:
        """Return a batch; without ``row`` rows are numbered from 0, without ``arrival_us`` event time stands for it.

        Without ``source`` the key stands for it. Raises ValueError when columns differ in length, a side is not 0 or 1,
        or an event time is beyond +-2^60 us.
        """
        side, event = np.asarray(side, np.int8), np.asarray(event_us, np.int64)
        n = len(side)
        plain = np.zeros((n, 0)) if numbers is None else np.asarray(numbers, np.float64)
        keys = np.zeros(n, np.int64) if key is None else np.asarray(key, np.int64)
        columns = {
            "side": side,
            "event_us": event,
            "arrival_us": event if arrival_us is None else np.asarray(arrival_us, np.int64),
            "row": np.arange(n) if row is None else np.asarray(row, np.int64),
            "key": keys,
            "missing": np.zeros(n, np.bool_) if missing is None else np.asarray(missing, np.bool_),
            "numbers": plain.reshape(n, -1) if n else plain.reshape(0, plain.shape[-1]),
            "source": keys if source is None else np.asarray(source, np.int64),
        }
        batch = cls(**{name: read_only(column) for name, column in columns.items()})
        batch._validate()
        return batch

    def _validate(self) -> None:
        lengths = {field.name: len(getattr(self, field.name)) for field in fields(self)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"expected columns of one length, found {lengths}")
        if np.any((self.side != LEFT) & (self.side != RIGHT)):
            raise ValueError("expected sides 0 (left) and 1 (right) only")
        if np.any((self.event_us < FAR_PAST_US) | (self.event_us > FAR_FUTURE_US)):
            raise ValueError("expected event times within +-2^60 us of 1970, found one beyond")

    def __len__(self) -> int:
        return len(self.side)

    def __getitem__(self, part: slice | Int64s | Bools) -> Batch:
        return Batch(*(getattr(self, field.name)[part] for field in fields(self)))


@dataclass(frozen=True)
class Pairs:
    """Rows that join, as columns; ``event_us`` is the time of the newer row, whose period the pair belongs to.

    ``wait_us`` is stream time from the arrival of the pair's later row until the pair was emitted.
    """

    left: Int64s
    right: Int64s
    event_us: Int64s
    wait_us: Int64s

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, part: Int64s) -> Pairs:
        return Pairs(*(getattr(self, field.name)[part] for field in fields(self)))


@dataclass(frozen=True)
class Log:
    """Rows that may have missed partners, in processing order.

    ``horizon_us`` is the other side's horizon when the row was processed: its missing partners are the rows
    processed before it that are not newer than that. ``time_us`` is the stream time just before the row. ``edge_us``
    is what the other side's horizon would have been without slack: a partner needed the slack by which it is older.
    """

    row: Int64s
    side: npt.NDArray[np.int8]
    event_us: Int64s
    horizon_us: Int64s
    time_us: Int64s
    edge_us: Int64s

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Outcome:
    """Outcome of a batch. ``refused``: positions in the batch of rows whose clock is in the future."""

    pairs: Pairs
    log: Log
    refused: Int64s


@dataclass(frozen=True)
class HeldRows:
    """Rows of both sides as a join holds them, those of a side in processing order.

    ``entries`` int64, rows x 4: the row's number in processing order, event time, cell and id. ``numbers`` float64.
    """

    side: npt.NDArray[np.int8]
    entries: Int64s
    numbers: Float64s

    def __len__(self) -> int:
        return len(self.side)

    def __getitem__(self, part: slice | Int64s | Bools) -> HeldRows:
        return HeldRows(self.side[part], self.entries[part], self.numbers[part])

    def after(self, horizons_us: Int64s) -> HeldRows:
        """Return the rows that are newer than their side's horizon."""
        return self[self.entries[:, 1] > horizons_us[self.side]]


@dataclass(frozen=True)
class Clock:
    """Rules by which a stream counts as silent and event times are not believed. None switches a rule off.

    ``idle_us``: a side that has had no arrival for longer no longer holds back T; the other side's time is used.
    ``ahead_of_arrival_us``: a row whose event time is further ahead of its own arrival is refused.
    ``ahead_of_streams_us``: so is a row that is further ahead of the newest row of both streams; it must exceed the
    longest gap of both streams together, or all rows after such a gap are refused.
    """

    idle_us: int | None = None
    ahead_of_arrival_us: int | None = None
    ahead_of_streams_us: int | None = None

    def limits(self) -> tuple[int, int, int]:
        """Return the three limits for a kernel; a rule that is off has a limit that nothing reaches."""
        given = self.idle_us, self.ahead_of_arrival_us, self.ahead_of_streams_us
        if any(limit is not None and limit < 0 for limit in given):
            raise ValueError(f"expected limits that are not negative, found {given}")
        idle, arrival, streams = (2**62 if limit is None else limit for limit in given)
        return idle, arrival, streams


def online_pairs(left: Int64s, right: Int64s, event_us: Int64s, wait_us: Int64s | None = None) -> Pairs:
    """Return pairs found online, at once unless waits are given."""
    n = len(left)
    return Pairs(left, right, event_us, np.zeros(n, np.int64) if wait_us is None else wait_us)

"""Rows held by a bucket of a window join: the kernel, and the columns that pairs show. No JVM.

A segment has rows of one side that entered with one batch and are near in time:

    side, place, number, event_us, cell, n_0 ...    as the kernel holds them
    source_file ..., k_0 ..., o_<name> ...          what pairs show and rest on, and the keys that are compared
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join.bucketing import is_in_bucket
from lakehouse.algorithms.late_join.contract import NO_TIME, HeldRows, Int64s
from lakehouse.algorithms.late_join.kernels.clock import HORIZON, clock_after, sides_of
from lakehouse.algorithms.late_join.policy import SlackPolicy
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.policy_paper import PaperSlack
from lakehouse.algorithms.late_join.policy_per_source import PerSource
from lakehouse.algorithms.late_join.qjoin import QJoin
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.shown_rows import ShownRows
from lakehouse.queries.runtime.tasks.bucket import Change, Left, Segment, cut_by_time, packed_rows, unpacked
from lakehouse.spark.key_codes import key_codes
from lakehouse.spark.noted_rows import PLACE

_METHOD, _NEXT = "method", "next"
# The segments of each side.
SIDE_PARTS = ("left", "right")
_KERNEL = ("side", "place", "cell")


class HeldJoin:
    """A join, what its rows show, and the number of the next row."""

    def __init__(self, query: PairsQuery) -> None:
        self.join = QJoin(query.condition, query.window_us, policy_of(query), query.clock)
        self.shown, self.following = ShownRows(), 0
        self._unwritten: list[pa.Table] = []

    @property
    def horizons_us(self) -> tuple[int, int]:
        """Return the horizon of each side."""
        left, right = (NO_TIME if horizon is None else horizon for horizon in self.join.horizons_us)
        return left, right

    def catch_up(self, counters: Mapping[str, bytes], segments: Sequence[Segment]) -> None:
        """Become the state of a later batch. Raises ValueError when the state is of another condition or window."""
        self.following = int(counters[_NEXT])
        rows = self._rows(counters, segments)
        if rows is not None:
            rows = rows.sort_by("number").combine_chunks()
        self._hold(counters, rows)

    def take_over(self, parents: Sequence[Left], bucket: int, buckets: int) -> None:
        """Become the state of a new bucket: rows of old ones that are used in it, and a clock behind none of theirs.

        Raises ValueError when a state is of another condition or window.
        """
        found = [self._rows(each.counters, each.segments) for each in parents]
        rows = _as_one([each for each in found if each is not None])
        counters = [each.counters for each in parents]
        sides = np.stack([sides_of(each["sides"]) for each in counters])
        states = np.stack([np.frombuffer(each["state"], np.int64) for each in counters])
        if rows is not None:
            held = _as_held(rows, self.join.columns)
            is_own = is_in_bucket(self.join.condition, held, bucket, buckets)
            is_own &= held.entries[:, 1] > sides[:, :, HORIZON].max(axis=0)[held.side]
            rows = _numbered_anew(rows.filter(pa.array(is_own)))
            self.following, self._unwritten = rows.num_rows, [rows]
        own, state = clock_after(sides, states, self.following)
        clock = {"sides": own.tobytes(), "state": state.tobytes()}
        self._hold({**counters[0], **clock}, rows)

    def _rows(self, counters: Mapping[str, bytes], segments: Sequence[Segment]) -> pa.Table | None:
        if (method := counters[_METHOD].decode()) != self.join.name:
            raise ValueError(f"expected the state of {self.join.name}, found that of {method}")
        return _as_one([unpacked(each.content) for each in segments])

    def _hold(self, counters: Mapping[str, bytes], rows: pa.Table | None) -> None:
        self.join.catch_up(counters, _as_held(rows, self.join.columns))
        if rows is not None:
            self.shown.add(_shown(rows), rows["side"].to_numpy())

    def take_in(self, new: pa.Table, at: Int64s, entered: HeldRows, window_us: int) -> Change:
        """Hold those of the ``new`` rows that the join holds, at these positions; return what that changes on disk."""
        self.following += new.num_rows
        kept = new.take(pa.array(at))
        self.shown.add(kept, entered.side)
        tables, self._unwritten = [*self._unwritten, _with_kernel(kept, entered)], []
        segments = [segment for table in tables for segment in _segments(table, window_us)]
        own = {_METHOD: self.join.name.encode(), _NEXT: str(self.following).encode()}
        ends = zip(SIDE_PARTS, self.horizons_us, strict=True)
        return Change(self.join.counters() | own, segments, {name: horizon + 1 for name, horizon in ends})


def policy_of(query: PairsQuery) -> SlackPolicy:
    """Return a new policy as the query asks for."""
    asked = query.recall, query.period_us, query.step_us
    if query.policy == "paper":
        return PaperSlack(*asked, query.paper.basic_us, query.paper.granularity_us, query.paper.reading)
    ours = PerSource if query.policy == "per_source" else NeededSlack
    return ours(*asked, spare=query.spare_rows)


def _segments(rows: pa.Table, window_us: int) -> Iterator[Segment]:
    """Yield the rows of each side, cut by time: about a window each, unless that were too many."""
    side, event = rows["side"].to_numpy(), rows["event_us"].to_numpy()
    for number, name in enumerate(SIDE_PARTS):
        own = np.flatnonzero(side == number)
        for at in cut_by_time(event[own], window_us):
            among = own[at]
            yield Segment(name, int(event[among].max()), packed_rows(rows.take(pa.array(among))))


def _with_kernel(shown: pa.Table, held: HeldRows) -> pa.Table:
    """Return rows with what the kernel knows of them."""
    place, _, cell, _ = held.entries.T
    columns = {"side": held.side, "place": place, "cell": cell}
    numbers = {f"n_{number}": column for number, column in enumerate(held.numbers.T)}
    own = {name: pa.array(np.ascontiguousarray(column)) for name, column in (columns | numbers).items()}
    return pa.table({**own, **{name: shown[name] for name in shown.column_names}})


def _as_one(tables: Sequence[pa.Table]) -> pa.Table | None:
    if not tables:
        return None
    return pa.concat_tables([tables[0], *(each.cast(tables[0].schema) for each in tables[1:])])


def _numbered_anew(rows: pa.Table) -> pa.Table:
    """Return each row once, numbered by event time: those that leave first come first.

    Rows are the same if all is that is known of them.
    """
    [same] = key_codes([rows.drop_columns(["number", "place"])])
    _, first = np.unique(same.code, return_index=True)
    rows = rows.take(pa.array(first)).sort_by([(name, "ascending") for name in ("event_us", "side", *PLACE)])
    number = pa.array(np.arange(rows.num_rows))
    for name in ("number", "place"):
        rows = rows.set_column(rows.schema.get_field_index(name), name, number)
    return rows.combine_chunks()


def _as_held(rows: pa.Table | None, columns: int) -> HeldRows:
    """Return rows of segments as the kernel holds them."""
    if rows is None:
        return HeldRows(np.empty(0, np.int8), np.empty((0, 4), np.int64), np.empty((0, columns)))
    entries = np.column_stack([rows[name].to_numpy() for name in ("place", "event_us", "cell", "number")])
    numbers = [rows[f"n_{number}"].to_numpy() for number in range(columns)]
    values = np.column_stack(numbers) if columns else np.empty((rows.num_rows, 0))
    return HeldRows(rows["side"].to_numpy(), entries, values)


def _shown(rows: pa.Table) -> pa.Table:
    return rows.select(
        [name for name in rows.column_names if name not in _KERNEL and not name.startswith("n_")]
    )

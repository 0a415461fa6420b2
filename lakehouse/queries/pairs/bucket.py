"""One bucket of one batch of a window join: its state and new rows in; pairs, log, state and metrics out. No JVM.

Everything comes back as rows of one table, ``kind`` says of what: a task of Spark returns one table. The columns that
pairs show of rows are held beside the kernel's state as long as the kernel holds the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join.contract import Outcome, Pairs, Snapshot
from lakehouse.algorithms.late_join.policy import SlackPolicy
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.policy_paper import PaperSlack
from lakehouse.algorithms.late_join.qjoin import QJoin
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.rows import as_batch, in_order
from lakehouse.queries.runtime.bucket import (
    gathered,
    log_rows,
    metrics_row,
    of_kind,
    packed,
    parts_of,
    state_rows,
    unpacked,
)

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Int64s

PAIR = "pair"
_SHOWN, _METHOD, _NEXT = "shown", "method", "next"
_SIDES = ("left", "right")
Newest = tuple[int | None, int | None]
Missed = tuple[int, "Int64s"]


@dataclass(frozen=True)
class BucketJoin:
    """What a task must know: the query, the columns of its answer, and each side's newest time known elsewhere.

    ``missed``: by bucket, up to which stream time repairs have come, and the missed pairs that they found.
    """

    query: PairsQuery
    schema: pa.Schema
    newest_us: Newest
    missed: Mapping[int, Missed] = field(default_factory=dict)

    def __call__(self, key: tuple[pa.Scalar, ...], rows: pa.Table, state: pa.Table) -> pa.Table:
        """Take one bucket's rows in; the bucket's number is the key of the group."""
        join, shown, first = self._restored(state)
        if (missed := self.missed.get(key[0].as_py())) and isinstance(join.policy, NeededSlack):
            join.policy.replace(*missed)
        before = join.counts
        join.advance(self.newest_us)
        rows = in_order(rows)
        numbered = rows.set_column(
            rows.schema.get_field_index("row"), "row", pa.array(np.arange(first, first + rows.num_rows))
        )
        shown = self._shown(rows, numbered, shown)
        outcome = join.process(as_batch(numbered))
        snapshot = join.snapshot()
        held = _held(snapshot)
        parts = [
            self._pairs(outcome, shown),
            self._log(outcome, numbered, shown),
            self._state(snapshot, held, shown, first + rows.num_rows),
            self._metrics(join, outcome, before, len(held), snapshot.size),
        ]
        return gathered(parts, self.schema, key[0].as_py())

    def _restored(self, state: pa.Table) -> tuple[QJoin, pa.Table | None, int]:
        """Return the join, what its rows show, and the number of the next row."""
        join = QJoin(self.query.condition, self.query.window_us, policy_of(self.query), self.query.clock)
        if not state.num_rows:
            return join, None, 0
        parts = parts_of(state)
        shown = unpacked(parts.pop(_SHOWN))
        method, following = parts.pop(_METHOD).decode(), int(parts.pop(_NEXT))
        join.restore(Snapshot(method, parts))
        return join, shown, following

    def _shown(self, rows: pa.Table, numbered: pa.Table, before: pa.Table | None) -> pa.Table:
        """Return what pairs show of rows, by the kernel's numbers, ascending: those held and the new ones."""
        own = [name for name in rows.column_names if name.startswith("o_")]
        new = pa.table(
            {"number": numbered["row"], "row": rows["row"], **{n: rows[n] for n in ("event_us", *own)}}
        )
        return new if before is None else pa.concat_tables([before, new.cast(before.schema)])

    def _pairs(self, outcome: Outcome, shown: pa.Table) -> pa.Table:
        pairs = outcome.pairs
        left, right = (_found(shown, numbers) for numbers in (pairs.left, pairs.right))
        return of_kind(PAIR, pair_columns(self.query, pairs, left, right), len(pairs))

    def _log(self, outcome: Outcome, numbered: pa.Table, shown: pa.Table) -> pa.Table:
        log, refused = outcome.log, numbered.take(pa.array(outcome.refused))
        numbers = np.concatenate([log.row, refused["row"].to_numpy()])
        return log_rows(log, refused, _found(shown, numbers)["row"], ("horizon_us", "time_us"))

    def _state(self, snapshot: Snapshot, held: Int64s, shown: pa.Table, following: int) -> pa.Table:
        kept = _found(shown, np.sort(held))
        own = {_METHOD: snapshot.method.encode(), _NEXT: str(following).encode(), _SHOWN: packed(kept)}
        return state_rows({**snapshot.parts, **own})

    def _metrics(
        self, join: QJoin, outcome: Outcome, before: Mapping[str, int], held: int, size: int
    ) -> pa.Table:
        new = {name: count - before[name] for name, count in join.counts.items()}
        (left, right), (left_newest, right_newest) = join.slacks_us, join.newest_us
        metrics = {
            "rows": new["processed"] + new["refused"],
            "pairs": len(outcome.pairs),
            "missed": new["logged"],
            "refused": new["refused"],
            "unusable": new["unusable"],
            "late_after_silence": new["late_after_silence"],
            "held": held,
            "most_held": max([held, *join.held_over_time()[:, 1].tolist()]),
            "bytes": size,
            "left_slack_us": left,
            "right_slack_us": right,
            "time_us": join.time_us,
            "left_newest_us": left_newest,
            "right_newest_us": right_newest,
        }
        return metrics_row(metrics)


def policy_of(query: PairsQuery) -> SlackPolicy:
    """Return a new policy as the query asks for."""
    if query.policy == "paper":
        return PaperSlack(query.recall, query.period_us, query.step_us)
    return NeededSlack(query.recall, query.period_us, query.step_us)


def pair_columns(
    query: PairsQuery, pairs: Pairs, left: pa.Table, right: pa.Table
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Return the columns of pairs; ``left`` and ``right`` are their rows, one for each pair."""
    columns = {
        "event_us": pa.array(pairs.event_us),
        "left_us": left["event_us"],
        "right_us": right["event_us"],
        "left_row": left["row"],
        "right_row": right["row"],
        "wait_us": pa.array(pairs.wait_us),
    }
    for output in query.outputs:
        columns[f"o_{output.name}"] = (left, right)[output.side][f"o_{output.name}"]
    return columns


def _held(snapshot: Snapshot) -> Int64s:
    """Return the numbers of the rows that both sides hold."""
    rows = (np.frombuffer(snapshot.parts[f"{name}_rows"], np.int64).reshape(-1, 4) for name in _SIDES)
    return np.concatenate([each[:, 3] for each in rows])


def _found(shown: pa.Table, numbers: np.ndarray) -> pa.Table:
    """Return the rows of these numbers."""
    return shown.take(pa.array(np.searchsorted(shown["number"].to_numpy(), numbers)))

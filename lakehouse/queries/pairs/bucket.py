"""One bucket of one batch of a window join: its state and new rows in; pairs, log, state and metrics out. No JVM."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join.contract import Outcome, Pairs
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.qjoin import QJoin
from lakehouse.queries.pairs.held_join import HeldJoin
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.rows import as_batch, in_order, with_equal_keys
from lakehouse.queries.pairs.shown_rows import ShownRows
from lakehouse.queries.runtime.recall.needed_slack import Missed
from lakehouse.queries.runtime.tasks.bucket import LOG, STATE, BucketResult, Metric, StateBefore, log_rows
from lakehouse.spark.noted_rows import PLACE
from lakehouse.spark.row_hash import xxhash64

PAIR = "pair"
Newest = tuple[int | None, int | None]


@dataclass(frozen=True)
class BucketJoin:
    """Inputs of a task: the query, the state, and each side's newest time elsewhere.

    ``missed``: by bucket, up to which stream time repairs have come, and the missed pairs that they found.
    """

    query: PairsQuery
    before: StateBefore
    newest_us: Newest
    missed: Mapping[int, Missed] = field(default_factory=dict)

    def __call__(self, bucket: int, rows: pa.Table, state: pa.Table) -> BucketResult:
        """Take one bucket's rows in."""
        before = self.before.of(bucket, state, partial(HeldJoin, self.query))
        held, join = before.held, before.held.join
        if (missed := self.missed.get(bucket)) and isinstance(join.policy, NeededSlack):
            join.policy.replace(*missed)
        join.clear_held_over_time()
        counts = join.counts
        join.advance(self.newest_us)
        rows = in_order(rows)
        new, batch = _shown(rows, held.following), as_batch(rows, held.following)
        outcome = join.process(batch)
        pairs, log = self._pairs(outcome, held.shown, new), self._log(outcome, rows, new)
        change = held.take_in(new, *join.entered(batch, outcome.refused), self.query.window_us)
        state = self.before.keep(bucket, before, change)
        held_rows = held.shown.drop(held.horizons_us)
        metrics = self._metrics(join, len(pairs), counts, held_rows, before.bytes)
        return BucketResult({PAIR: pairs, LOG: log, STATE: state}, metrics)

    def _pairs(self, outcome: Outcome, shown: ShownRows, new: pa.Table) -> pa.Table:
        pairs = outcome.pairs
        left, right = (shown.of(numbers, new) for numbers in (pairs.left, pairs.right))
        pairs, left, right = with_equal_keys(pairs, left, right)
        return pair_rows(self.query, pairs, left, right)

    def _log(self, outcome: Outcome, rows: pa.Table, new: pa.Table) -> pa.Table:
        log, refused = outcome.log, rows.take(pa.array(outcome.refused))
        at = np.concatenate([np.searchsorted(new["number"].to_numpy(), log.row), outcome.refused])
        logged = rows.take(pa.array(at))
        own = {name: logged[name] for name in ("row", *PLACE)}
        return log_rows(log, refused, own, ("horizon_us", "time_us", "edge_us"))

    def _metrics(
        self, join: QJoin, pairs: int, before: Mapping[str, int], held: int, size: int
    ) -> dict[str, Metric]:
        new = {name: count - before[name] for name, count in join.counts.items()}
        (left, right), (left_newest, right_newest) = join.slacks_us, join.newest_us
        return {
            "rows": new["processed"] + new["refused"],
            "pairs": pairs,
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


def _shown(rows: pa.Table, first: int) -> pa.Table:
    """Return what pairs show of rows, by the kernel's numbers, which begin with ``first``."""
    own = ["event_us", *PLACE, *(name for name in rows.column_names if name.startswith(("o_", "k_")))]
    number = pa.array(np.arange(first, first + rows.num_rows))
    return pa.table({"number": number, **{name: rows[name] for name in own}})


def pair_rows(query: PairsQuery, pairs: Pairs, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return pairs as their table has them; ``left`` and ``right`` are their rows, one for each pair."""
    columns = {
        "event_us": pa.array(pairs.event_us),
        "left_us": left["event_us"],
        "right_us": right["event_us"],
        "wait_us": pa.array(pairs.wait_us),
    }
    for side, rows in (("left", left), ("right", right)):
        place = {name.replace("source", side): rows[name] for name in PLACE}
        columns |= {f"{side}_row": pa.array(xxhash64([*place.values()], rows.num_rows)), **place}
    for output in query.outputs:
        columns[output.name] = (left, right)[output.side][f"o_{output.name}"]
    return pa.table(columns)

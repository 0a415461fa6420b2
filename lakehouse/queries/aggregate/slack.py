"""Slack of a query with a recall: how long ticks wait, once all streams have passed them, before they are answered.

    state before, repairs since -> policy -> slack              before the batch; the last tick never turns back
    answers by the slack they needed, rows by their lag -> policy -> state after

A row of a batch changes a tick in time if that is not answered before: it needs more slack than ``T - tick``, with T
what all streams had passed before the batch. An answer needs what the last of its rows does, and each of these has T as
one value more: of an answer that is the greatest, by side ([query.py](query.py)). A row that comes too late moves
the answer from the slack that it needed before to the one that it needs now.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from lakehouse.algorithms.join_aggregate.contract import Int64s
from lakehouse.algorithms.late_join.policy_by_stream import StreamSlack
from lakehouse.queries.aggregate.query import AggregateQuery, places_of_last_came
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.progress import Progress, passed_us
from lakehouse.queries.runtime.recall.needed_slack import POLICY, needed_rows, resume
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_files import dataset
from lakehouse.storage.tables.table_log import files_near, read_columns

# The bucket of a policy's state, which is that of no rows.
_WHOLE = -1
# Less than any tick needs.
_IN_TIME = -1


@dataclass(frozen=True)
class TickSlack:
    """Slack of a batch, by the policy that has chosen it; ``time_us``: what all streams had passed before, if known."""

    policy: StreamSlack
    time_us: int | None
    slack_us: int

    @classmethod
    def chosen(
        cls, layout: Home, query: AggregateQuery, manifest: BatchManifest, before: Progress
    ) -> Self | None:
        """Return the slack of a batch; None of a query without a recall, whose ticks do not wait."""
        policy = policy_of(query)
        if policy is None:
            return None
        resume(policy, layout, query, manifest, read_state(layout, query.name, manifest.number - 1))
        time_us = passed_us(before.newest_us, query.idle_us)
        (slack_us,) = (0,) if time_us is None else policy.latest_us(time_us)
        return cls(policy, time_us, slack_us)


def policy_of(query: AggregateQuery) -> StreamSlack | None:
    """Return a new policy as the query asks for, None for one whose ticks do not wait.

    To a policy all sides are one stream, late by what it says, for which nothing else waits.
    """
    if query.recall is None:
        return None
    return StreamSlack([query.window_us], query.recall, query.period_us or 0, query.every_us)


def read_state(layout: Home, query: str, batch: int) -> bytes | None:
    """Return the state of the policy after a batch, None if it left none. Cost: the parts of the state that have it."""
    files = [path for path, _ in files_near(layout.states(query), "batch", [(batch, batch)])]
    if not files:
        return None
    of_batch = (ds.field("batch") == batch) & (ds.field("bucket") == _WHOLE)
    found = dataset(files).to_table(["content"], filter=of_batch)["content"].to_pylist()
    return found[0] if found else None


def state_row(state: bytes, batch: int) -> dict[str, object]:
    """Return the state of the policy after a batch as a row of ``states``."""
    return {"bucket": _WHOLE, "part": POLICY, "content": state, "batch": batch}


def passed_before(layout: Home, query: AggregateQuery, after: int, through: int) -> dict[int, int | None]:
    """Return what all streams had passed before each batch after one and through another."""
    rows = read_columns(layout.queries(query.name), ("batch", "newest_us"), ("batch", after, through - 1))
    newest_us = dict(rows)
    none = [None] * len(query.sides)
    return {
        batch: passed_us(newest_us.get(batch - 1, none), query.idle_us)
        for batch in range(after + 1, through + 1)
    }


def slack_needed(query: AggregateQuery, answers: pa.Table) -> tuple[Int64s, Int64s]:
    """Return when the last row of each answer came, 0 if before all times, and the slack that it needed."""
    parts = [answers[f"extreme_{place}"].fill_null(np.nan).to_numpy() for place in places_of_last_came(query)]
    came = np.fmax.reduce(parts)
    is_known = ~np.isnan(came)
    came_us = np.where(is_known, came, 0.0).astype(np.int64)
    needed = np.where(is_known, came_us - answers["tick_us"].to_numpy(), _IN_TIME)
    return came_us, np.maximum(needed, _IN_TIME)


def moved(query: AggregateQuery, answers: pa.Table, before: pa.Table, rank: Int64s) -> pa.Table:
    """Return how the answers of a repair move from the slack that they needed to the one that they need now.

    ``before``: answers that they take the place of; ``rank``: which of the answers takes that of each.
    """
    policy = policy_of(query)
    if policy is None or not len(answers):
        return needed_rows()
    came_us, needed = slack_needed(query, answers)
    # Both at the time of the later row: a move adds nothing to what is counted then.
    came_before_us, needed_before = slack_needed(query, before)
    np.maximum.at(came_us, rank, came_before_us)
    ends = ((came_us, needed, 1), (came_us[rank], needed_before, -1))
    return needed_rows(np.concatenate([_at(policy, *end) for end in ends]))


def _at(policy: StreamSlack, time_us: Int64s, slack_us: Int64s, sign: int) -> Int64s:
    nothing = np.zeros_like(slack_us)
    counts = policy.count_missed(nothing, nothing, time_us, slack_us)
    return np.column_stack([counts[:, :-1], sign * counts[:, -1]])

"""Reach of a batch: how long it holds rows of each side beyond their windows, as SLACK says, or RECALL asks for.

    state before, repairs since -> policy -> slack of each side       before the batch; horizons only grow
    results by the slack needed, rows by their lag -> policy -> state after

A result needed the greatest slack of its rows of earlier batches ([policy_by_stream.py](../../algorithms/late_join)).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lakehouse.algorithms.late_join.policy_by_stream import StreamSlack, held_us
from lakehouse.algorithms.multiway_join.contract import Bools, Int64s
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.progress import until_us_of
from lakehouse.queries.runtime.recall.needed_slack import POLICY, resume
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import read_columns


@dataclass(frozen=True)
class Reach:
    """Reach of a batch.

    ``time_us``: what all streams had passed before the batch, None before there is a time. ``slack_us``: by side how
    much longer than its window rows are held.
    """

    query: MultiwayQuery
    time_us: int | None
    slack_us: tuple[int, ...]

    @property
    def at_us(self) -> int | None:
        """The time at which windows end; those of some sides may end later."""
        return None if self.time_us is None else self.time_us - max(self.slack_us)

    def late_us(self, side: int) -> int | None:
        """Return before which time rows of a side are late: some that they join may have left their windows."""
        others = (slack for other, slack in enumerate(self.slack_us) if other != side)
        return None if self.time_us is None else self.time_us - min(others)

    def since_us(self, oldest_us: int | None = None) -> list[int | None]:
        """Return by side from when on rows are in their windows, and can meet a row from ``oldest_us`` on."""
        since = list[int | None]()
        for side, slack_us in zip(self.query.sides, self.slack_us, strict=True):
            ends = [None if self.time_us is None else self.time_us - slack_us, oldest_us]
            known = [end for end in ends if end is not None]
            since.append(max(known) - side.window_us if known else None)
        return since


def reaches(layout: Home, query: MultiwayQuery, after: int, through: int) -> dict[int, Reach]:
    """Return how far back the finished batches after one and through another have met rows."""
    columns = ("batch", "side", "slack_us", "time_us")
    rows = read_columns(layout.queries(query.name), columns, ("batch", after, through))
    times = {batch: time_us for batch, _, _, time_us in rows}
    slacks = {(batch, side): slack_us for batch, side, slack_us, _ in rows}
    sides = range(len(query.sides))
    return {
        batch: Reach(query, times.get(batch - 1), tuple(slacks[batch, side] for side in sides))
        for batch in times
        if batch > after
    }


def farthest(layout: Home, query: MultiwayQuery, done: int) -> Reach | None:
    """Return what no batch after the last one reaches beyond: with RECALL that of the last one itself."""
    if query.recall is None:
        return Reach(query, until_us_of(layout, query.name, done), (query.slack_us,) * len(query.sides))
    return reaches(layout, query, done - 1, done).get(done)


def policy_of(query: MultiwayQuery) -> StreamSlack | None:
    """Return a new policy as the query asks for, None for one whose SLACK is given."""
    if query.recall is None:
        return None
    windows_us = [side.window_us for side in query.sides]
    return StreamSlack(windows_us, query.recall, query.period_us or 0, query.step_us or 0, query.spare_rows)


def chosen(
    layout: Home,
    query: MultiwayQuery,
    manifest: BatchManifest,
    time_us: int | None,
    state: Mapping[str, bytes],
) -> tuple[Reach, StreamSlack | None]:
    """Return how far back a batch meets rows, and the policy that has chosen it, which learns from the batch.

    ``time_us``: what all streams have passed before; ``state``: what the batch before has left.
    """
    policy = policy_of(query)
    if policy is None:
        return Reach(query, time_us, (query.slack_us,) * len(query.sides)), None
    resume(policy, layout, query, manifest, state.get(POLICY))
    if time_us is None:
        return Reach(query, None, (0,) * len(query.sides)), policy
    slack_us = held_us(policy.latest_us(time_us))
    before = reaches(layout, query, manifest.number - 2, manifest.number - 1).get(manifest.number - 1)
    if before is not None and before.time_us is not None:
        # A row that has left its window does not come back: what is counted and kept has forgotten it.
        most_us = (time_us - before.time_us + slack for slack in before.slack_us)
        slack_us = tuple(map(min, slack_us, most_us))
    return Reach(query, time_us, slack_us), policy


def slack_needed(
    query: MultiwayQuery, event_us: Int64s, is_new: Bools, time_us: Int64s | int
) -> tuple[Int64s, Int64s]:
    """Return the stream of each result's newest row by batch, and the slack that the other rows needed.

    ``event_us``: of its rows, by side; ``is_new``: which are of its newest batch; ``time_us``: what all streams had
    passed before that, of all results or of each, as a column.
    """
    windows_us = np.array([side.window_us for side in query.sides], np.int64)
    needed = np.where(is_new, -1, time_us - windows_us - event_us).max(axis=1, initial=-1)
    stream: Int64s = is_new.shape[1] - 1 - np.argmax(is_new[:, ::-1], axis=1)
    return stream, needed

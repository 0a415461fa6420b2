"""Slack needed by results that repairs found: the next choice of slack knows it instead of estimating.

Each repair writes down how much slack its results would have needed. A batch is told of all finished repairs up to the
one that its manifest names, unless the batch before was: a batch that is made again is told the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.late_join.contract import Int64s
from lakehouse.algorithms.late_join.policy_by_stream import StreamSlack
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.queries.kind import Query, kind_of
from lakehouse.queries.runtime.batch_manifest import BatchManifest, origin, require_manifest
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_files import dataset
from lakehouse.storage.tables.table_log import read_columns, read_log

# Until when a bucket is repaired, and what it had missed.
Missed = tuple[int, "Int64s"]
Parts = Sequence[Sequence[int]]
NEEDED = "needed"
COUNTS = ("from_us", "side", "slack_us", "pairs")
# The part of a state that the policy of a query without buckets of its own goes on from.
POLICY = "policy"
# Of metrics, the bucket that stands for a batch as a whole.
_WHOLE = -1


def needed_rows(counts: Int64s | None = None, bucket: int = 0) -> pa.Table:
    """Return counts, as a policy's ``count_missed`` makes them, as rows of the table of needed slack; none of None."""
    lines = np.empty((0, len(COUNTS)), np.int64) if counts is None else counts
    columns = {name: pa.array(column) for name, column in zip(COUNTS, lines.T, strict=True)}
    return pa.table({"bucket": pa.repeat(bucket, len(lines)), **columns})


def missed_by_bucket(
    layout: Home, query: Query, manifest: BatchManifest, policy: object
) -> Mapping[int, Missed]:
    """Return what a batch behind a repair is told of each bucket: until when it is repaired, and what it had missed.

    Nothing where the batch before was told of the same repairs, or the query's policy does not listen.
    """
    if not manifest.through_repair or not isinstance(policy, NeededSlack):
        return {}
    if manifest.number > 1:
        before = require_manifest(layout.batch_manifests(query.name), "batch", manifest.number - 1)
        if manifest.through_repair == before.through_repair:
            return {}
    told, scales = _repaired_until(layout, query, manifest.through_repair), manifest.scales
    oldest = min(told.until_us.values(), default=0) - policy.kept_us
    kept = (pc.field("repair") <= manifest.through_repair) & (pc.field("from_us") >= oldest)
    counts = _counts(layout, query.name, kept)
    counted = np.column_stack([counts[name].to_numpy().astype(np.int64) for name in ("bucket", *COUNTS)])
    # Each repair is of batches of one scale.
    repairs, of_repair = np.unique(counts["repair"].to_numpy(), return_inverse=True)
    batches = [told.batch_of[repair] for repair in repairs.tolist()]
    missed = dict[int, Missed]()
    for bucket in range(manifest.buckets):
        old_bucket = origin(bucket, scales, told.batch_of[manifest.through_repair])
        until_us = told.until_us.get(old_bucket, told.until_us.get(_WHOLE))
        if until_us is not None:
            old = np.array([origin(bucket, scales, batch) for batch in batches], np.int64)
            missed[bucket] = until_us, counted[counted[:, 0] == old[of_repair], 1:]
    return missed


def resume(
    policy: StreamSlack, layout: Home, query: Query, manifest: BatchManifest, state: bytes | None
) -> None:
    """Let a policy go on from the state that the batch before left, and from what repairs since then have found."""
    if state:
        policy.restore(state)
    if missed := missed_by_bucket(layout, query, manifest, policy).get(0):
        policy.replace(*missed)


def learned(
    policy: StreamSlack, time_us: int | None, slack_us: Sequence[int], needed: Parts, lags: Parts
) -> bytes:
    """Let a policy learn from a batch with a slack of each stream; return its state.

    ``time_us``: what all streams had passed before, None if that is not known. ``needed``, ``lags``: results by the
    slack that they needed and rows by how late they came, in parts as ``counted`` returns them.
    """
    if time_us is not None:
        policy.learn(time_us, slack_us, summed(policy, needed), summed(policy, lags))
    return policy.snapshot()


def counted(policy: StreamSlack | None, stream: Int64s, slack_us: Int64s, sign: int = 1) -> list[int]:
    """Return how many of these there are by stream and bin of slack: stream, bin, count, stream, bin, count, ...

    ``sign``: -1 if they no longer count.
    """
    if policy is None:
        return []
    places = np.column_stack([stream, np.searchsorted(policy.grid, slack_us, side="right")])
    distinct, counts = np.unique(places, axis=0, return_counts=True)
    return [*chain(*np.column_stack([distinct, sign * counts]).tolist())]


def summed(policy: StreamSlack, parts: Iterable[Sequence[int]]) -> Int64s:
    """Return counts of parts as one array, by stream and bin of slack."""
    stream, slack_bin, counts = np.array([*chain(*parts)], np.int64).reshape(-1, 3).T
    total = np.zeros((len(policy.windows_us), len(policy.grid) + 1), np.int64)
    np.add.at(total, (stream, slack_bin), counts)
    return total


@dataclass(frozen=True)
class _Told:
    """Up to which batch each repair has come, and by bucket the stream time after that of the last one told of."""

    batch_of: Mapping[int, int]
    until_us: Mapping[int, int]


def _repaired_until(layout: Home, query: Query, repair: int) -> _Told:
    batch_of = dict(read_columns(layout.repairs(query.name), ("repair", "through")))
    through, columns = batch_of[repair], (kind_of(query).partition, "time_us")
    rows = read_columns(layout.queries(query.name), columns, ("batch", through, through))
    return _Told(batch_of, {bucket: time for bucket, time in rows if time is not None})


def _counts(layout: Home, query: str, kept: pc.Expression) -> pa.Table:
    names = ["repair", "bucket", *COUNTS]
    log = read_log(layout.needed_slack(query))
    if log is None or not log.files:
        return pa.table({name: pa.array([], pa.int64()) for name in names})
    files = dataset(list(log.files))
    return files.to_table(columns=names, filter=kept)

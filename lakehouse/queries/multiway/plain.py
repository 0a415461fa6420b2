"""A batch joined plainly: all rows that it sees meet by key, and each place finds the results that have a new row.

raw rows of the batch and of its windows -> all of a key in one place -> results, and a log of late and refused rows
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.multiway_join.contract import Bools, Int64s
from lakehouse.algorithms.multiway_join.joining import Joined, results_with_new
from lakehouse.config.stream import Stream
from lakehouse.engine import Engine
from lakehouse.engine.parts import sink_of
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.reach import Reach, policy_of, slack_needed
from lakehouse.queries.multiway.rows import TAKEN, keyed, kinds_of, logged_rows, side_columns
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.recall.needed_slack import counted
from lakehouse.queries.runtime.tasks.arrow_sql import columns_read
from lakehouse.queries.runtime.tasks.bucket import LOG, BucketResult
from lakehouse.queries.runtime.tasks.by_bucket import ROWS_A_PLACE, Answered, Output, run_buckets
from lakehouse.queries.runtime.tasks.key_codes import key_codes
from lakehouse.queries.runtime.tasks.reading import Columns, Counted, FileRows, SideRows, raw_columns
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import files_near

RESULT = "result"
_NEVER = 2**62
# A place holds at most so many bytes of combinations at a time.
_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class PlainJoin:
    """The rows that a batch sees, new ones and those of their windows.

    ``oldest_us``: no new row is older.
    """

    engine: Engine
    layout: Home
    query: MultiwayQuery
    streams: Mapping[str, Stream]
    manifest: BatchManifest
    reach: Reach
    oldest_us: int | None

    @cached_property
    def since_us(self) -> list[int | None]:
        """Per side, from when on rows of earlier batches are in their windows; None for all."""
        return self.reach.since_us(self.oldest_us)

    def answered(self) -> Answered:
        """Write the results and the log of the batch, to be committed."""
        layout, query, number = self.layout, self.query, self.manifest.number
        files = [self._files(side) for side in range(len(query.sides))]
        places = 1 + sum(rows for own in files for _, rows in own) // ROWS_A_PLACE
        inputs = [SideRows(own, self._rows(side, places)) for side, own in enumerate(files)]
        results, log = sink_of(layout.multiway(query.name)), sink_of(layout.missed_rows(query.name))
        outputs = [
            Output(RESULT, results, {"found": "online", "batch": number}),
            Output(LOG, log, {}),
        ]
        kernels = PlainPlaces(query, self.reach, number)
        step = f"query {query.name}, batch {number}"
        return run_buckets(self.engine, step, inputs, places, kernels, outputs)

    def _files(self, side: int) -> list[Counted]:
        """Return the files that may have new rows, or those of a side's window."""
        table, since_us = self.layout.raw(self.query.sides[side].stream), self.since_us[side]
        if since_us is None:
            return files_near(table, "event_us", [(-_NEVER, _NEVER)])
        known = [each for each in (since_us, self.oldest_us) if each is not None]
        return files_near(table, "event_us", [(min(known), _NEVER)])

    def _rows(self, number: int, places: int) -> Columns:
        (after, through), since_us = self.manifest.spans[number], self.since_us[number]
        side = self.query.sides[number]
        columns = [
            *keyed(side_columns(self.query, self.streams, number), places),
            f"batch > {after} AS is_new",
        ]
        seen = f"batch <= {through}" + (
            "" if since_us is None else f" AND (batch > {after} OR event_us >= {since_us})"
        )
        condition = f"{seen} AND {side.where}" if side.where else seen
        names = columns_read([*columns, condition])
        stored = raw_columns(self.layout, side.stream, names)
        return Columns(FileRows(stored, condition), tuple(columns))


@dataclass(frozen=True)
class PlainPlaces:
    """The kernel of places, each of which has all rows of its keys."""

    query: MultiwayQuery
    reach: Reach
    batch: int

    def __call__(self, place: int, rows: pa.Table) -> BucketResult:
        """Return the result of a place with rows."""
        sides = by_side(rows, len(self.query.sides))
        used = [used_rows(each) for each in sides]
        joined = as_joined(self.query, used, [each["is_new"].to_numpy() for each in used])
        found = results_with_new(joined, most_met(self.query))
        results = shown(self.query, used, found)
        is_new = [each["is_new"].to_numpy() for each in sides]
        late_us = [self.reach.late_us(side) for side in range(len(sides))]
        kinds = [kinds_of(*each) for each in zip(sides, is_new, late_us, strict=True)]
        counts = {f"{name}_{side}": int(own[name].sum()) for side, own in enumerate(kinds) for name in TAKEN}
        counts |= {f"held_{side}": each.num_rows for side, each in enumerate(sides)}
        lags = (lags_of(self.reach, side, each, kinds[side]) for side, each in enumerate(sides))
        learned = {"needed": slacks_of(self.reach, joined, found), "lags": [*chain(*lags)]}
        logs = [
            logged_rows(own, kind, until_us, self.batch, self.reach.time_us)
            for own, kind, until_us in zip(sides, kinds, late_us, strict=True)
        ]
        log = pa.concat_tables(logs, promote_options="permissive")
        return BucketResult({RESULT: results, LOG: log}, {**counts, "bytes": rows.nbytes, **learned})


def slacks_of(reach: Reach, joined: Sequence[Joined], found: Int64s) -> list[int]:
    """Return how many results of a batch, by places in ``joined``, needed which slack; nothing if nobody learns it."""
    if reach.query.recall is None or reach.time_us is None:
        return []
    event_us = np.column_stack([each.event_us[found[:, side]] for side, each in enumerate(joined)])
    is_new = np.column_stack([each.is_new[found[:, side]] for side, each in enumerate(joined)])
    return counted(policy_of(reach.query), *slack_needed(reach.query, event_us, is_new, reach.time_us))


def lags_of(reach: Reach, side: int, rows: pa.Table, kinds: Mapping[str, Bools]) -> list[int]:
    """Return how many new rows of a side that join came how far behind the time before; nothing if nobody learns it."""
    if reach.query.recall is None or reach.time_us is None:
        return []
    is_used = kinds["rows"] & ~kinds["refused"] & ~kinds["unusable"]
    lag_us = reach.time_us - rows["event_us"].to_numpy()[is_used]
    return counted(policy_of(reach.query), np.full(len(lag_us), side), lag_us)


def by_side(rows: pa.Table, sides: int) -> list[pa.Table]:
    """Return the rows of each side."""
    return [rows.filter(pc.equal(rows["side"], side)).combine_chunks() for side in range(sides)]


def used_rows(rows: pa.Table) -> pa.Table:
    """Return the rows that join: those with a whole key whose clock is believed."""
    is_refused = rows["is_refused"].to_numpy()
    return rows.filter(pa.array(rows["key"].is_valid().to_numpy() & ~is_refused))


def as_joined(query: MultiwayQuery, used: Sequence[pa.Table], is_new: Sequence[Bools]) -> list[Joined]:
    """Return the rows of all sides that join as the method takes them: with numbers that are equal where keys are."""
    keys = key_codes(
        [rows.select([f"k_{place}" for place in range(len(query.sides[0].keys))]) for rows in used]
    )
    return [
        Joined(key.code, rows["event_us"].to_numpy(), new, side.window_us)
        for key, rows, new, side in zip(keys, used, is_new, query.sides, strict=True)
    ]


def most_met(query: MultiwayQuery) -> int:
    """Return how many combinations a place holds at most."""
    return _MOST_BYTES // (8 * (len(query.sides) + 4))


def shown(query: MultiwayQuery, used: Sequence[pa.Table], found: Int64s) -> pa.Table:
    """Return combinations, one a line by places in ``used``, as the results that they are."""
    times, ids = (
        np.column_stack([rows[name].to_numpy()[found[:, side]] for side, rows in enumerate(used)])
        for name in ("event_us", "row")
    )
    outputs = {
        each.name: used[each.side][f"o_{each.name}"].take(pa.array(found[:, each.side]))
        for each in query.outputs
    }
    own = {"event_us": times.max(axis=1), "times_us": _lists(times), "row_ids": _lists(ids)}
    return pa.table({**own, **outputs})


def _lists(values: Int64s) -> pa.Array:
    """Return each line as a list."""
    starts = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(pa.array(starts), pa.array(values.ravel()))

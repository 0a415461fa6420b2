"""A batch of few rows whose windows are read from raw, joined in the process that commits it.

Planning one join in Spark costs a batch of ten thousand rows more than all that is done with them. Here are the same
rows as ``windows.RawRows`` reads and the same results as ``plain`` makes of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.multiway_join.joining import Joined, results_with_new
from lakehouse.home.table_log import Between, most_rows
from lakehouse.queries.multiway.rows import side_columns
from lakehouse.queries.multiway.windows import TAKEN
from lakehouse.queries.runtime import arrow_sql, bucket_answers
from lakehouse.queries.runtime.batch import read_here
from lakehouse.queries.runtime.bucket_answers import fit_here, with_constants

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.algorithms.multiway_join.contract import Bools, Int64s
    from lakehouse.declare.stream import Stream
    from lakehouse.home.layout import Home
    from lakehouse.queries.multiway.query import MultiwayQuery
    from lakehouse.queries.runtime.batch_manifest import BatchManifest


@dataclass(frozen=True)
class SmallBatch:
    """The rows that a batch sees, new ones and those of their windows.

    ``since_us``: per side, from when on rows of earlier batches are in their windows; None for all. ``oldest_us``: no
    new row is older. ``horizon_us``: rows before it are late.
    """

    layout: Home
    query: MultiwayQuery
    streams: Mapping[str, Stream]
    manifest: BatchManifest
    since_us: Sequence[int | None]
    oldest_us: int | None
    horizon_us: int | None

    def fits(self) -> bool:
        """Tell if the files that may have the rows have so few that this process takes them on."""
        sides = enumerate(self.query.sides)
        return fit_here(sum(most_rows(self.layout.raw(side.stream), self._between(n)) for n, side in sides))

    def results(self) -> pa.Table:
        """Return the results that have a new row.

        Raises:
            TooMany: where the combinations that new rows meet are more than this process shall hold.
        """
        used = [used_rows(rows) for rows in self._sides]
        sides = [
            as_joined(self.query, side, rows, rows["is_new"].to_numpy(zero_copy_only=False))
            for side, rows in enumerate(used)
        ]
        return shown(self.query, used, results_with_new(sides, most_met(self.query)), "online")

    def logged(self) -> pa.Table:
        """Return the new rows that came late, and those that are refused."""
        horizons: dict[str, int | None] = {"missed": self.horizon_us, "refused": None}
        found = [
            with_constants(
                rows.filter(pa.array(is_so)).select(["side", "row", "event_us"]),
                {"what": kind, "bucket": 0, "horizon_us": horizons[kind]},
            )
            for rows in self._sides
            for kind, is_so in self._kinds(rows).items()
            if kind in horizons
        ]
        return pa.concat_tables(found, promote_options="permissive")

    def counts(self) -> list[dict[str, int]]:
        """Return per side how many new rows there are of which kind."""
        return [{name: int(kinds[name].sum()) for name in TAKEN} for kinds in map(self._kinds, self._sides)]

    def held(self, side: int) -> int:
        """Return how many rows of a side were looked at, new ones too."""
        return int(self._sides[side].num_rows)

    @cached_property
    def _sides(self) -> list[pa.Table]:
        return [self._read(number) for number in range(len(self.query.sides))]

    def _read(self, number: int) -> pa.Table:
        (after, through), since_us = self.manifest.spans[number], self.since_us[number]
        side = self.query.sides[number]
        columns = [*side_columns(self.query, self.streams, number), f"batch > {after} AS is_new"]
        seen = f"batch <= {through}" + (
            "" if since_us is None else f" AND (batch > {after} OR event_us >= {since_us})"
        )
        condition = f"{seen} AND {side.where}" if side.where else seen
        rows = read_here(self.layout, side.stream, self._between(number), [*columns, condition])
        return arrow_sql.select(arrow_sql.where(rows, condition), columns)

    def _between(self, number: int) -> Between | None:
        """Return the times that new rows, and those of a side's window, lie between."""
        known = [each for each in (self.since_us[number], self.oldest_us) if each is not None]
        return None if self.since_us[number] is None else ("event_us", min(known), None)

    def _kinds(self, rows: pa.Table) -> dict[str, Bools]:
        """Return which new rows are of which kind, and which are new, by ``rows``."""
        is_new, refused = (rows[name].to_numpy(zero_copy_only=False) for name in ("is_new", "is_refused"))
        has_key, event = rows["key"].is_valid().to_numpy(), rows["event_us"].to_numpy()
        is_late = np.zeros(len(event), np.bool_) if self.horizon_us is None else event < self.horizon_us
        known = is_new & ~refused
        kinds = {
            "refused": is_new & refused,
            "unusable": known & ~has_key,
            "missed": known & has_key & is_late,
        }
        return {"rows": is_new, **kinds}


def used_rows(rows: pa.Table) -> pa.Table:
    """Return the rows that join: those with a whole key whose clock is believed."""
    is_refused = rows["is_refused"].to_numpy(zero_copy_only=False)
    return rows.filter(pa.array(rows["key"].is_valid().to_numpy() & ~is_refused))


def as_joined(query: MultiwayQuery, side: int, rows: pa.Table, is_new: Bools) -> Joined:
    """Return a side's rows that join as the method takes them."""
    return Joined(rows["key"].to_numpy(), rows["event_us"].to_numpy(), is_new, query.sides[side].window_us)


def most_met(query: MultiwayQuery) -> int:
    """Return how many combinations this process holds at most."""
    return bucket_answers.MOST_BYTES_HERE // (8 * (len(query.sides) + 4))


def shown(query: MultiwayQuery, used: Sequence[pa.Table], found: Int64s, how: str) -> pa.Table:
    """Return combinations, one a line by places in ``used``, as the results that they are; ``how``: what found them."""
    times, ids = (
        np.column_stack([rows[name].to_numpy()[found[:, side]] for side, rows in enumerate(used)])
        for name in ("event_us", "row")
    )
    outputs = {
        each.name: used[each.side][f"o_{each.name}"].take(pa.array(found[:, each.side]))
        for each in query.outputs
    }
    own = {"event_us": times.max(axis=1), "times_us": _lists(times), "row_ids": _lists(ids)}
    return pa.table({**own, "found": pa.repeat(how, len(found)), **outputs})


def _lists(values: Int64s) -> pa.Array:
    """Return each line as a list."""
    starts = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(pa.array(starts), pa.array(values.ravel()))

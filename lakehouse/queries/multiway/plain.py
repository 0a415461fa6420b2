"""A batch joined plainly: all rows that it sees meet by key, and each place finds the results that have a new row.

raw rows of the batch and of its windows -> all of a key in one place -> results, and a log of late and refused rows
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from lakehouse.config.stream import Stream
from lakehouse.engine import Engine
from lakehouse.engine.parts import sink_of
from lakehouse.queries.multiway.places import RESULT, JoinPlaces, whole_routes
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.reach import Reach
from lakehouse.queries.multiway.rows import keyed, side_columns
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.tasks.arrow_sql import columns_read
from lakehouse.queries.runtime.tasks.bucket import LOG
from lakehouse.queries.runtime.tasks.by_bucket import ROWS_A_PLACE, Answered, Output, run_buckets
from lakehouse.queries.runtime.tasks.reading import Columns, Counted, FileRows, SideRows, raw_columns
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import files_near

_NEVER = 2**62


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
        kernels = JoinPlaces(self.reach, whole_routes(len(query.sides)), batch=number)
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

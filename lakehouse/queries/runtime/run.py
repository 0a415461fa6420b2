"""Run a registered query batch by batch: what all kinds share, around the kind's own work on a batch.

A batch is finished when its metrics are in ``queries``. Everything that it reads was fixed before, its state is that
of the batch before, and each table is appended to once per batch. A batch that died anywhere can therefore run again
with the same result.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, Self, TypeVar
from uuid import uuid4

import pyarrow as pa

from lakehouse.config.stream import Stream
from lakehouse.engine import Engine
from lakehouse.engine.parts import commit_entries, sink_of
from lakehouse.engine.rewriting import Gone, Instead, remove_rows
from lakehouse.queries.kind import Query, definition_of, kind_of, reach_of, written_as
from lakehouse.queries.runtime.batch import MOST_ROWS, Through, next_batch
from lakehouse.queries.runtime.batch_manifest import ONE, BatchManifest, Wanted, last_repair
from lakehouse.queries.runtime.checks import Counting, counted, found_column
from lakehouse.queries.runtime.progress import until_us_of
from lakehouse.queries.runtime.retracted import Resting, Retracted
from lakehouse.queries.runtime.source import FromRaw, RowSource
from lakehouse.queries.runtime.tables import Written, create_tables
from lakehouse.queries.runtime.tasks.bucket import STATE, SegmentFiles, StateBefore
from lakehouse.queries.runtime.tasks.by_bucket import Output
from lakehouse.spark import tables
from lakehouse.storage.corrections import raw_from, read_corrections
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home
from lakehouse.storage.query_meaning import require_same
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import Between, file_facts

Q = TypeVar("Q", bound=Query)


@dataclass(frozen=True)
class QueryRun(ABC, Generic[Q]):
    """A registered query and where it runs; ``counts``: the totals that ``finish`` returns."""

    counts: ClassVar[tuple[str, ...]]
    engine: Engine
    layout: Home
    query: Q
    streams: Mapping[str, Stream]
    wanted: Wanted = ONE

    @classmethod
    def of(
        cls,
        engine: Engine,
        layout: Home,
        query: Q,
        streams: Mapping[str, Stream],
        wanted: Wanted,
        sites: Mapping[str, Mapping[str, float]],
    ) -> Self:
        """Return a query and where it runs; ``wanted``: its number of buckets; ``sites`` as declared."""
        return cls(engine, layout, query, streams, wanted)

    @abstractmethod
    def finish(self, manifest: BatchManifest, source: RowSource) -> dict[str, Any]:
        """Append all results of a batch, its metrics last; return its totals."""

    def selected(self, manifest: BatchManifest) -> Written:
        """Return how the tasks of a scan write the rows of a kind that has no kernel."""
        raise NotImplementedError(f"a query of kind {self.query.kind} has a kernel")

    def drain(self, most_rows: int = MOST_ROWS) -> dict[str, int]:
        """Process all finished ingest batches that no batch of the query has read; return the totals.

        Raises QueryChanged if the query means something other than its tables.
        """
        self.begin()
        totals = dict.fromkeys(("batches", *self.counts), 0)
        while (manifest := self.next(most_rows)) is not None:
            add(totals, self.finish(manifest, FromRaw(self.layout, self.query, manifest.spans)))
        return totals

    def begin(self) -> None:
        """Create the tables that do not exist.

        Raises QueryChanged if the query means something other than its tables.
        """
        name, folder = self.query.name, self.layout.batch_manifests(self.query.name)
        require_same(folder, name, definition_of(self.query), written_as(self.query))
        create_tables(self.layout, self.query, self.streams)

    def next(self, most_rows: int, through: Through | None = None) -> BatchManifest | None:
        """Return the batch that was begun, or write the manifest of the next one; None if nothing is new."""
        return next_batch(self.layout, self.query, most_rows, through, self.through_repair(), self.cut)

    @property
    def cut(self) -> Wanted:
        """The number of buckets of a new batch."""
        return self.wanted

    def through_repair(self) -> int:
        """Return the last repair that a new batch knows of: with a recall it tells how much slack is needed."""
        recall = getattr(self.query, "recall", None)
        return 0 if recall is None else last_repair(self.layout, self.query.name)

    def time_us(self, batch: int) -> int | None:
        """Return the stream time of a finished batch."""
        return until_us_of(self.layout, self.query.name, batch)

    def resting(self, retracted: Retracted) -> dict[str, int]:
        """Return how many results rest on retracted rows, by what has found them."""
        if (found := self._results_on(retracted)) is None:
            return {}
        table, resting, between = found
        counting = Counting(table, found_column(kind_of(self.query)), only=resting, between=between)
        [counts] = counted(self.engine, [counting], f"results of {self.query.name} on retracted rows")
        return {f"{row['found']} {row['batch']}": row["count_all"] for row in counts.to_pylist()}

    def withdraw(self, retracted: Retracted, manifest: BatchManifest) -> tuple[int, int]:
        """Withdraw all results that rest on retracted rows, which the state forgets, as a repair; done again, the same.

        Return how many answers were recomputed, and how many retracted rows have some that cannot be.
        """
        if found := self._results_on(retracted):
            self.remove(*found, manifest)
            crash_point("withdrawal.results-removed")
        self.forget(retracted, manifest)
        return 0, 0

    def forget(self, retracted: Retracted, manifest: BatchManifest) -> None:
        """Remove retracted rows from what the next batch goes on from; most kinds hold none."""

    def remove(
        self,
        table: Location,
        gone: Gone,
        between: Between | None,
        manifest: BatchManifest,
        instead: Instead | None = None,
    ) -> None:
        """Remove rows from a table once, as a repair does."""
        name, number = self.query.name, manifest.number
        step, writer = (
            f"repair {name}, repair {number}: withdraw from {table.parent.name}",
            f"withdraw-{name}",
        )
        remove_rows(self.engine, self.layout, table, gone, between, step, (writer, number), instead=instead)

    def _results_on(self, retracted: Retracted) -> tuple[Location, Resting, Between] | None:
        """Return the table of results, those that rest on retracted rows, and their times; None where it has none."""
        kind = kind_of(self.query)
        between = "event_us", retracted.from_us, retracted.to_us - 1 + reach_of(self.query)
        table: Location = getattr(self.layout, kind.results)(self.query.name)
        return (table, Resting(retracted, kind.rests_on), between) if kind.rests_on else None

    def commit(self, entries: pa.Table, table: Location, how: str, number: int) -> bool:
        """Commit parts that tasks have written once; return False if that was done before, or if there are none.

        ``how``: ``online`` for parts of a batch, ``repair`` for parts of a repair; ``number`` is its number.
        """
        writer = f"{'query' if how == 'online' else 'repair'}-{self.query.name}"
        return bool(entries.num_rows) and commit_entries(table, entries, (writer, number)) is not None

    def append_metrics(self, rows: Iterable[Mapping[str, Any]], batch: int, **times: Any) -> None:
        """Append the metrics of a batch, which finishes it; ``times`` are the same in every row."""
        stamp = {"batch": batch, **times, "committed_at": datetime.now(UTC)}
        table, writer = self.layout.queries(self.query.name), f"query-{self.query.name}"
        stamped = [{**row, **stamp} for row in rows]
        tables.append_rows(stamped, table, writer, batch)
        crash_point("queries.finished")

    def finish_repair(self, manifest: BatchManifest, **figures: Any) -> None:
        """Append the row of a repair, which finishes it."""
        number, name = manifest.number, self.query.name
        row = {
            "repair": number,
            "through": manifest.spans[0][1],
            **figures,
            "committed_at": datetime.now(UTC),
        }
        tables.append_row(row, self.layout.repairs(name), f"repair-{name}", number)
        crash_point("repair.finished")

    def state_files(self, manifest: BatchManifest) -> SegmentFiles:
        """Return the files in which the tasks of a batch find the state that earlier batches left."""
        files = file_facts(self.layout.states(self.query.name).absolute())
        return SegmentFiles(tuple(files), manifest.number)

    def state_before(self, manifest: BatchManifest, files: SegmentFiles) -> StateBefore:
        """Return the state that earlier batches left, for the tasks of a batch."""
        table = self.layout.states(self.query.name)
        return StateBefore(str(table), manifest.number, uuid4().hex[:16], files, manifest.scales)

    def states_output(self, batch: int) -> Output:
        """Return how buckets write the changes of a batch to their states."""
        return Output(STATE, sink_of(self.layout.states(self.query.name)), {"batch": batch})

    def commit_states(self, entries: pa.Table, batch: int) -> None:
        """Commit the changes of a batch to the states of the buckets."""
        self.commit(entries, self.layout.states(self.query.name), "online", batch)
        crash_point("queries.state-appended")


def add_all(totals: dict[str, int], more: Mapping[str, Any]) -> None:
    """Add totals to totals."""
    for name, value in more.items():
        totals[name] += value


def add(totals: dict[str, int], batch: Mapping[str, Any]) -> None:
    """Add a batch to totals."""
    totals["batches"] += 1
    for name in totals.keys() - {"batches"}:
        totals[name] += batch[name]


def kept_since(layout: Home, query: Query) -> int | None:
    """Return the time before which raw rows of some stream have been deleted, None if there is none.

    Partners of a logged row may be among them if it is less than its reach after that time.
    """
    kept = [raw_from(read_corrections(layout, stream)) for stream in query.streams]
    return max((time for time in kept if time is not None), default=None)

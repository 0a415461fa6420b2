"""A batch of each of several queries at once: shared scans of their streams, then what each does with its rows.

    manifest of batch N                 which ingest batches batch N takes; written first, for all queries of the round
        raw rows of a stream and span    -> one scan, for all that read just these
        selections                       -> their rows are appended, several at a time
        joins and aggregates             -> their kernels, one after the other, highest priority first
        operators N                      of each join what was measured of its conditions, and of its kernel
        queries N                        written last, by each: its batch is finished

The priority of a kernel is that of the last operator of a chain, n - V: rows that it takes out of the system a second,
less those that come. So of queries that wait for the same scan, those that are soon done are done first.

A query that raises, wherever that is, is left out: a batch of it stays begun, ``stopped`` beside its plans says why,
and the others go on. Run again, it takes that batch anew; it shares scans with the others once it has caught up.

All that a batch reads was fixed before it began, and each table is appended once per batch: a batch that died anywhere
is simply made again. Which queries share a round changes how long it takes, never what comes out.

Source: Dong et al., MultiFactor, for priorities. There tuples pass from filters to joins one by one; here all kernels
wait for the scans, since rows meet by key between both.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakehouse.algorithms.scheduling.policies import DEFAULT
from lakehouse.config.problems import EngineEnded
from lakehouse.engine import Engine
from lakehouse.engine.parts import TableSink
from lakehouse.queries.runtime.batch import MOST_ROWS
from lakehouse.queries.runtime.batch_manifest import BatchManifest, Span, finished, last_planned
from lakehouse.queries.runtime.failure import Failure, clear_failure, read_failure, write_failure
from lakehouse.queries.runtime.run import QueryRun, add
from lakehouse.queries.runtime.scan.measurements import Measured, read_before
from lakehouse.queries.runtime.scan.readers import Reader, readers_of
from lakehouse.queries.runtime.scan.scan import Scan
from lakehouse.queries.runtime.scan.shared import Kernel, Scanned, Shared, kernel_before
from lakehouse.queries.runtime.scan.task import LIMIT_BYTES
from lakehouse.queries.runtime.tables import Written
from lakehouse.spark import tables
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import arrival_span_us, read_extent
from lakehouse.storage.query_meaning import QueryChanged
from lakehouse.storage.tables.integrity import why_failed

log = logging.getLogger(__name__)
# Commits of Delta that go on at the same time.
_WRITERS = 4


@dataclass(frozen=True)
class Rounds:
    """Queries that are run together."""

    engine: Engine
    layout: Home
    runs: tuple[QueryRun[Any], ...]
    limit_bytes: int = LIMIT_BYTES
    policy: str = DEFAULT

    def drain(self, most_rows: int = MOST_ROWS) -> dict[str, dict[str, int]]:
        """Take in all finished ingest batches that the queries lack; return by query what they came to.

        A query that is stopped is behind afterwards; ``stopped`` says why. Raises QueryChanged when a query means
        something else than its tables.
        """
        totals = {run.query.name: dict.fromkeys(("batches", *run.counts), 0) for run in self.runs}
        going = tuple(run for run in self.runs if self._is_begun(run))
        while batches := tuple(self._batches(going, most_rows)):
            done = Round(self, batches).finish()
            failed = {batch.name for batch in batches} - done.keys()
            going = tuple(run for run in going if run.query.name not in failed)
            for name, figures in done.items():
                add(totals[name], figures)
        return totals

    def _is_begun(self, run: QueryRun[Any]) -> bool:
        """Create what a query lacks of its tables; tell if it can be run, else it is stopped."""
        name = run.query.name
        try:
            run.begin()
            if run.query.kernel is not None:
                tables.create(self.layout.operators(name), "operators")
            self._forget_stop(name)
        except QueryChanged:
            raise
        except Exception as error:
            self._stop_unplanned(name, "its tables", error)
            return False
        return True

    def _batches(self, going: Iterable[QueryRun[Any]], most_rows: int) -> Iterable[Batch]:
        """Yield the next batch of each query, all planned up to the same ingest batches."""
        streams = {stream for run in self.runs for stream in run.query.streams}
        through = {stream: read_extent(self.layout, stream).batch for stream in streams}
        for run in going:
            try:
                manifest = run.next(most_rows, through)
            except Exception as error:
                self._stop_unplanned(run.query.name, "its plans", error)
                continue
            if manifest:
                yield Batch(run, manifest)

    def _stop_unplanned(self, query: str, operator: str, error: Exception) -> None:
        """Stop a query of which no batch can be planned, at the last that was."""
        log.exception("query %s raised", query)
        number = last_planned(self.layout.batch_manifests(query))
        self.stop(query, number, operator, self.reason(query, error))

    def reason(self, query: str, error: Exception) -> str:
        """Return in one line what an error came of: a damaged file of the query's or its streams' tables, or itself.

        Raises EngineEnded when it came of the end of Spark's JVM, which is no fault of a query.
        """
        if isinstance(error, EngineEnded):
            raise error
        run = next(run for run in self.runs if run.query.name == query)
        of_streams = [self.layout.raw(stream) for stream in run.query.streams]
        return _in_one_line(why_failed(error, [*self.layout.tables_of(query), *of_streams]))

    def stop(self, query: str, batch: int, operator: str, error: str, place: str | None = None) -> None:
        """Note why a query stands still; whoever asks for it is told."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        stopped = Failure(batch, operator, error, place, at)
        log.warning("query %s is stopped: %s", query, stopped)
        write_failure(self.layout, query, stopped)

    def _forget_stop(self, query: str) -> None:
        """Forget why a query stood still, if its process died between the end of that batch and this."""
        stopped = read_failure(self.layout, query)
        if stopped and stopped.batch <= finished(self.layout, query):
            clear_failure(self.layout, query)


@dataclass(frozen=True)
class Batch:
    """A batch of a query in a round."""

    run: QueryRun[Any]
    manifest: BatchManifest

    @property
    def name(self) -> str:
        """The query's."""
        return str(self.run.query.name)

    @property
    def has_kernel(self) -> bool:
        """True if more is done with rows that are let through than to append them."""
        return self.run.query.kernel is not None

    @cached_property
    def readers(self) -> dict[int, Reader]:
        """Readers of the query, by side."""
        return readers_of(self.run.query)


@dataclass(frozen=True)
class Round:
    """Batches that are made together."""

    rounds: Rounds
    batches: tuple[Batch, ...]

    def finish(self) -> dict[str, dict[str, Any]]:
        """Make all batches; return the figures of those that raised nothing."""
        scanned = self._scanned()
        crash_point("queries.selected")
        going = [batch for batch in self.batches if all(r.name in scanned for r in batch.readers.values())]
        sources = [(batch, self._source(batch, scanned)) for batch in going]
        with ThreadPoolExecutor(_WRITERS) as pool:
            selections = [each for each in sources if not each[0].has_kernel]
            done = list(pool.map(lambda each: self._finish(*each), selections))
        kernels = [each for each in sources if each[0].has_kernel]
        done += [self._finish(*each) for each in sorted(kernels, key=lambda each: -each[1].priority)]
        for written in (each for _, source in kernels for each in source.scanned.values()):
            for path, _ in written.files:
                path.unlink(missing_ok=True)
        return {name: figures for name, figures in done if figures is not None}

    def _scanned(self) -> dict[str, Scanned]:
        """Return what readers let through, by name; those that raise are stopped and left out."""
        shared: dict[tuple[str, Span], list[Reader]] = {}
        for batch in self.batches:
            for side, reader in batch.readers.items():
                shared.setdefault((reader.stream, batch.manifest.spans[side]), []).append(reader)
        found: dict[str, Scanned] = {}
        for (_, span), readers in shared.items():
            found |= self._scan(tuple(readers), span)
        return found

    def _scan(self, readers: tuple[Reader, ...], span: Span) -> dict[str, Scanned]:
        try:
            scan = self._scan_of(readers, span)
            columns = [scan.shown(reader) for reader in readers]
            writes = [self._written(*each) for each in zip(readers, columns, strict=True)]
            entries, tasks = scan.run(self.rounds.engine, writes)
        except Exception as error:
            # Not raised by a predicate, which the executor would have told: a worker that died, for one.
            return self._each_alone(readers, span, error)
        arrival_us = arrival_span_us(self.rounds.layout, readers[0].stream, *span)
        measured, found = Measured(readers, scan.before, tasks, self.rounds.policy, arrival_us), {}
        figures = measured.figures()
        for place, reader in enumerate(readers):
            raised = [task["readers"][place] for task in tasks if "error" in task["readers"][place]]
            if raised:
                self._stop(reader.query, *(raised[0][name] for name in ("failed_at", "error", "place")))
            else:
                found[reader.name] = Scanned(entries[place], figures[place], columns[place])
        return found

    def _written(self, reader: Reader, columns: pa.Schema) -> Written:
        """Return where a reader's rows go: into the table of a selection, or into files for a kernel."""
        batch = next(batch for batch in self.batches if batch.name == reader.query)
        if not batch.has_kernel:
            return batch.run.selected(batch.manifest)
        # No commit names these files: where this process dies, a vacuum deletes them.
        folder = self.rounds.layout.operators(reader.query)
        sink = TableSink(str(folder.absolute()), columns, frozenset())
        return Written(sink, {name: name for name in columns.names})

    def _scan_of(self, readers: tuple[Reader, ...], span: Span) -> Scan:
        rounds, numbers = self.rounds, {batch.name: batch.manifest.number for batch in self.batches}
        before = {each.name: read_before(rounds.layout, each, numbers[each.query]) for each in readers}
        return Scan(rounds.layout, readers, span, before, rounds.limit_bytes, policy=rounds.policy)

    def _each_alone(self, readers: tuple[Reader, ...], span: Span, error: Exception) -> dict[str, Scanned]:
        """Find out who ends the task: each reader is scanned for alone, and the one that does it again is stopped."""
        if len(readers) == 1:
            self._stop(readers[0].query, "its task", self.rounds.reason(readers[0].query, error))
            return {}
        found: dict[str, Scanned] = {}
        for reader in readers:
            found |= self._scan((reader,), span)
        return found

    def _source(self, batch: Batch, scanned: Mapping[str, Scanned]) -> Shared:
        rounds = self.rounds
        by_side = {side: scanned[reader.name] for side, reader in batch.readers.items()}
        is_new = not batch.has_kernel or batch.manifest.number == 1
        before = Kernel() if is_new else kernel_before(rounds.layout, batch.name, batch.manifest.number)
        return Shared(rounds.layout, batch.run.query, batch.manifest, by_side, before)

    def _finish(self, batch: Batch, source: Shared) -> tuple[str, dict[str, Any] | None]:
        try:
            figures = batch.run.finish(batch.manifest, source.begun())
        except Exception as error:
            log.exception("query %s raised", batch.name)
            self._stop(batch.name, source.kernel, self.rounds.reason(batch.name, error))
            return batch.name, None
        clear_failure(self.rounds.layout, batch.name)
        return batch.name, figures

    def _stop(self, query: str, operator: str, error: str, place: str | None = None) -> None:
        number = next(batch.manifest.number for batch in self.batches if batch.name == query)
        self.rounds.stop(query, number, operator, error, place)


def _in_one_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)

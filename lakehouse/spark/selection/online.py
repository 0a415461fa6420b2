"""A batch of all selections that stand at the same place of a stream: its new rows are read once, for all of them.

    plans/<query>/batch-N     which ingest batches batch N takes; written first
        raw rows of those, statistics of batch N - 1
            -> tasks                        an executor each: conditions in measured order, turns by priority
            -> selected                     of each query its rows
            -> queries N                    what was measured of its operators; written last: the batch is finished

A query that raises is left out: its batch stays begun, ``stopped`` beside its plans says why, and the others go on. Run
again, it takes that batch anew; while it is behind it runs by itself, or with those that stand where it does.

All that a batch reads was fixed before it began, and each table is appended once per batch: a batch that died anywhere
is simply made again. The order of conditions changes how long that takes, never which rows come out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.algorithms.scheduling.network import Network
from lakehouse.catalog.crashpoint import crash_point
from lakehouse.catalog.layout import Home
from lakehouse.catalog.ledger import read_ledger
from lakehouse.catalog.plans import Span, definition_of, finished, read_plans, require_same
from lakehouse.catalog.query_names import TIMES
from lakehouse.catalog.selection_query import SelectionQuery
from lakehouse.catalog.stopped import Stopped, clear_stopped, write_stopped
from lakehouse.catalog.stream import Stream
from lakehouse.spark import tables
from lakehouse.spark.late_join.tables import parsed
from lakehouse.spark.query_batches import MOST_ROWS, next_batch
from lakehouse.spark.selection.chains import sources_of, written
from lakehouse.spark.selection.measured import Before, Measured, interval_of, known_of, read_before
from lakehouse.spark.selection.tables import create_tables
from lakehouse.spark.selection.task import LIMIT_BYTES, QUERY, ROW, TOLD, Work
from lakehouse.spark.sources.rows import sql_type

log = logging.getLogger(__name__)
COUNTS = ("rows", "selected", "misses")
# Commits of Delta that go on at the same time.
_WRITERS = 4


@dataclass(frozen=True)
class Run:
    """Registered selections of one stream, and where they run."""

    spark: SparkSession
    layout: Home
    queries: tuple[SelectionQuery, ...]
    streams: Mapping[str, Stream]
    limit_bytes: int = LIMIT_BYTES

    def drain(self, most_rows: int = MOST_ROWS) -> dict[str, dict[str, int]]:
        """Take in all finished ingest batches that the queries lack; return by query what they came to.

        A query that is stopped is behind afterwards; ``stopped`` says why.

        Raises:
            QueryChanged: when a query means something else than its tables.
        """
        for query in self.queries:
            require_same(self.layout.plans(query.name), query.name, definition_of(query, 1))
            create_tables(self.spark, self.layout, query, self.streams)
        totals = {query.name: dict.fromkeys(("batches", *COUNTS), 0) for query in self.queries}
        if not tables.exists(self.layout.raw(self.queries[0].stream)):
            return totals
        going = list(self.queries)
        while batch := self._next(going, most_rows):
            done = batch.finish()
            going = [query for query in going if query not in batch.queries or query.name in done]
            for name, figures in done.items():
                totals[name]["batches"] += 1
                for count in COUNTS:
                    totals[name][count] += figures[count]
        return totals

    def _next(self, going: Sequence[SelectionQuery], most_rows: int) -> Pass | None:
        """Return the pass over the earliest rows that any query lacks; None when all is taken."""
        ledger = [read_ledger(self.layout, self.queries[0].stream)]
        places = {query: _after(self.layout, query.name) for query in going}
        for after in sorted(set(places.values())):
            plans = {
                query: plan
                for query in going
                if places[query] == after
                and (plan := next_batch(self.layout, query.name, [query.stream], most_rows, ledger))
            }
            if plans:
                span = min(plan.spans[0] for plan in plans.values())
                together = {query: plan.number for query, plan in plans.items() if plan.spans[0] == span}
                return Pass(self, together, span)
        return None


@dataclass(frozen=True)
class Pass:
    """One pass over some ingest batches for some queries; ``numbers``: of their own batches."""

    run: Run
    numbers: Mapping[SelectionQuery, int]
    span: Span

    @property
    def queries(self) -> tuple[SelectionQuery, ...]:
        """The queries that are run together."""
        return tuple(self.numbers)

    def finish(self) -> dict[str, dict[str, Any]]:
        """Append what the queries select, then the figures that say so; return these of those that raised nothing."""
        numbers = self.numbers.items()
        before = {query.name: read_before(self.run.layout, query.name, number) for query, number in numbers}
        found = self._found(before).persist()
        try:
            try:
                told = found.where(F.col(TOLD).isNotNull()).select(TOLD).collect()
            except Exception as error:
                # Not raised by a predicate, which the executor would have told: a worker that died, for one.
                return self._each_alone(error)
            tasks = [task for row in told if (task := json.loads(row[TOLD]))["arrived"][0]]
            crash_point("queries.selected")
            return self._write(found, Measured(self.queries, before, tasks))
        finally:
            found.unpersist()

    def _found(self, before: Mapping[str, Before]) -> DataFrame:
        """Return what comes out of the tasks; see ``task.py``."""
        run, queries = self.run, self.queries
        stream, network = run.streams[queries[0].stream], Network.of(written(queries))
        read = dict.fromkeys(column for query in queries for column in query.read)
        kinds = {name: "bigint" if name in TIMES else sql_type(stream.all_columns[name]) for name in read}
        shown = dict.fromkeys(output.column for query in queries for output in query.outputs)
        columns = "".join(f", `{name}` {kinds[name]}" for name in shown if name != "event_us")
        schema = f"{QUERY} int, {TOLD} string, event_us bigint, {ROW} bigint{columns}"
        answer = to_arrow_schema(parsed(schema))
        work = Work(
            queries,
            sources_of(queries),
            known_of(network, before),
            interval_of(before),
            answer,
            run.limit_bytes,
        )
        raw = tables.read(run.spark, run.layout.raw(stream.name))
        raw = raw.where((F.col("batch") > self.span[0]) & (F.col("batch") <= self.span[1]))
        row = F.xxhash64("source_file", "source_line", "source_item").alias(ROW)
        rows = raw.select("event_us", row, *(name for name in read if name != "event_us"))
        return rows.mapInArrow(work.run, schema)

    def _each_alone(self, error: Exception) -> dict[str, dict[str, Any]]:
        """Find out which query ends its task: each is run by itself, and the one that does it again is stopped."""
        if len(self.numbers) == 1:
            told = str(error).strip().splitlines() or [type(error).__name__]
            self._stop(self.queries[0], "its task", told[0], None)
            return {}
        done: dict[str, dict[str, Any]] = {}
        for query, number in self.numbers.items():
            done |= replace(self, numbers={query: number}).finish()
        return done

    def _write(self, found: DataFrame, measured: Measured) -> dict[str, dict[str, Any]]:
        going = []
        for place, query in enumerate(self.queries):
            raised = [task["queries"][place] for task in measured.tasks if "error" in task["queries"][place]]
            if raised:
                self._stop(query, *(raised[0][name] for name in ("failed_at", "error", "place")))
            else:
                going.append(place)
        figures = measured.figures()
        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(lambda place: self._append(found, place, figures[place]), going))
        return {self.queries[place].name: figures[place][0] for place in going}

    def _append(self, found: DataFrame, place: int, figures: Sequence[Mapping[str, Any]]) -> None:
        """Append a query's rows, then the figures that finish its batch."""
        query, layout = self.queries[place], self.run.layout
        number, writer = self.numbers[query], f"query-{query.name}"
        shown = [F.col(output.column).alias(output.name) for output in query.outputs]
        own = found.where(F.col(QUERY) == place)
        rows = own.select(
            "event_us", F.col(ROW).alias("row_id"), F.lit(number).cast("bigint").alias("batch"), *shown
        )
        if figures[0]["selected"]:
            tables.append_once(rows, layout.selected(query.name), writer, number)
        crash_point("queries.outputs-appended")
        stamp = {"batch": number, "committed_at": datetime.now(UTC)}
        told = [{**row, **stamp} for row in figures]
        tables.append_rows(self.run.spark, told, layout.queries(query.name), writer, number)
        clear_stopped(layout, query.name)
        crash_point("queries.finished")

    def _stop(self, query: SelectionQuery, operator: str, error: str, place: str | None) -> None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        stopped = Stopped(self.numbers[query], operator, error, place, at)
        log.warning("query %s is stopped: %s", query.name, stopped)
        write_stopped(self.run.layout, query.name, stopped)


def _after(layout: Home, query: str) -> int:
    """Return the ingest batch behind which a query's next batch begins."""
    plans = read_plans(layout.plans(query), "batch")
    if not plans:
        return 0
    low, high = plans[-1].spans[0]
    return low if plans[-1].number > finished(layout, query) else high

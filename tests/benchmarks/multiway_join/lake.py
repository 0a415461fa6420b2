"""Streams in raw tables, joined batch by batch in turns: as registered queries, and in plain Spark SQL.

The plain join reads of each stream the rows of the batch and those before that its windows reach, and keeps results
that have a row of the batch; Spark plans it with adaptive execution, and with bloom filters wherever it sees a use.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
import pyarrow as pa

from lakehouse.config.stream import Stream
from lakehouse.engine import engine_of
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.run import MultiwayRun
from lakehouse.queries.registered import parse_query
from lakehouse.queries.runtime.repair import drain_repairs
from lakehouse.spark import tables
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import read_rows
from tests.benchmarks.parts import cpu_s
from tests.support.shuffle_metrics import Meter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A stream's rows, cut into batches: event_us, k (what must be equal), uid, value.
Batches = Sequence[pd.DataFrame]
_BLOOM = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "true",
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
}


# Plain Spark, ours with keys counted in every batch, ours as each batch is chosen to be joined.
PLAIN, COUNTED, CHOSEN = "plain Spark", "always counted", "chosen"
WAYS = (PLAIN, COUNTED, CHOSEN)


class Used(NamedTuple):
    """What one join of one batch took: seconds, those of processors, and bytes moved."""

    seconds: float
    cpu: float
    moved: int


@dataclass(frozen=True)
class Case:
    """Streams that are joined on ``k``, each within its window."""

    name: str
    streams: Mapping[str, Batches]
    windows_us: Sequence[int]
    slack_us: int = 0

    @property
    def batches(self) -> int:
        """How many batches there are."""
        return min(map(len, self.streams.values()))

    def text(self) -> str:
        """Return the registered query."""
        sides = [
            f"{name} [{us} MICROSECONDS]" for name, us in zip(self.streams, self.windows_us, strict=True)
        ]
        first, *others = self.streams
        joins = "".join(
            f" JOIN {side} ON {first}.k = {name}.k" for side, name in zip(sides[1:], others, strict=True)
        )
        shown = ", ".join(f"{name}.uid AS {name}_uid, {name}.value AS {name}_value" for name in self.streams)
        return f"SELECT {first}.k, {shown} FROM {sides[0]}{joins} SLACK {self.slack_us} MICROSECONDS"

    def plain(self, batch: int) -> str:
        """Return the same join of one batch in Spark SQL, over views of the streams' raw rows."""
        names, windows = list(self.streams), dict(zip(self.streams, self.windows_us, strict=True))
        newest = f"greatest({', '.join(f'{name}.event_us' for name in names)})"
        equal = [f"{names[0]}.k = {name}.k" for name in names[1:]]
        near = [
            f"{one}.event_us - {two}.event_us <= {windows[two]}"
            for one in names
            for two in names
            if one != two
        ]
        new = f"greatest({', '.join(f'{name}.batch' for name in names)}) = {batch}"
        oldest = min(
            int(each[batch - 1]["event_us"].min()) for each in self.streams.values() if len(each[batch - 1])
        )
        reach = [f"{name}.event_us >= {oldest - windows[name]}" for name in names]
        known = [f"{name}.batch <= {batch}" for name in names]
        shown = ", ".join(f"{name}.uid AS {name}_uid, {name}.value AS {name}_value" for name in names)
        where = " AND ".join([*equal, *near, *reach, *known, new])
        return f"SELECT {newest} AS event_us, {names[0]}.k, {shown} FROM {', '.join(names)} WHERE {where}"


@dataclass(frozen=True)
class Lake:
    """A case in a home of its own."""

    spark: SparkSession
    home: Path
    case: Case

    @property
    def layout(self) -> Home:
        """Where its tables are."""
        return Home(self.home)

    def run(self) -> dict[str, list[Used]]:
        """Join every batch each way, in turns which is first; return what each took.

        Raises:
            ValueError: they did not come to the same results.
        """
        queries, streams = self._registered()
        taken: dict[str, list[Used]] = {way: [] for way in WAYS}
        runs = {
            way: MultiwayRun(engine_of(self.spark), self.layout, query, streams, joins=joins)
            for (way, query), joins in zip(queries.items(), ("pruned", ""), strict=True)
        }
        for batch in range(1, self.case.batches + 1):
            for name, batches in self.case.streams.items():
                self._land(streams[name], batch, batches[batch - 1])
            first = batch % len(WAYS)
            for way in (*WAYS[first:], *WAYS[:first]):
                taken[way].append(self._plain(batch) if way == PLAIN else self._drained(runs[way]))
        for run in runs.values():
            drain_repairs(run)
            self._compare(run.query)
        return taken

    def _registered(self) -> tuple[dict[str, MultiwayQuery], dict[str, Stream]]:
        declared = {"event_time": {"column": "ts", "unit": "us"}, "levels": ["1d forever"]}
        declared |= {"source": {"path": "x", "format": "ndjson"}}
        columns = {"k": "string", "uid": "string", "value": "int"}
        streams = {
            name: Stream.model_validate(declared | {"name": name, "columns": columns})
            for name in self.case.streams
        }
        queries = {}
        for way, name in ((COUNTED, "counted"), (CHOSEN, "chosen")):
            query = parse_query(name, self.case.text(), streams)
            assert isinstance(query, MultiwayQuery)
            queries[way] = query
        return queries, streams

    @property
    def _results(self) -> Path:
        return self.home / "plain"

    def _land(self, stream: Stream, batch: int, rows: pd.DataFrame) -> None:
        """Append one batch to a stream's raw table and ledger, as an ingest would have."""
        raw, ledger = self.layout.raw(stream.name), self.layout.ledger(stream.name)
        tables.create_raw(raw, stream)
        tables.create(ledger, "ledger")
        told = {"batch": batch, "source_file": stream.name, "source_item": 0, "source_line": range(len(rows))}
        frame = self._as(raw, rows.assign(**told))
        frame.write.format("delta").mode("append").save(str(raw))
        times = {
            f"{bound}_event_us": int(getattr(rows["event_us"], bound)()) if len(rows) else None
            for bound in ("min", "max")
        }
        entry = {"batch": batch, "accepted": len(rows), **times, "newest_us": times["max_event_us"]}
        tables.append_row(entry, ledger, "bench", batch)

    def _as(self, table: Location, rows: pd.DataFrame) -> DataFrame:
        """Return rows with the columns of a table that they have."""
        there = tables.read(self.spark, table)
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(
            there.select(*(name for name in there.columns if name in rows.columns)).schema
        )
        return self.spark.createDataFrame(pa.Table.from_pandas(rows, schema, preserve_index=False))

    def _drained(self, ours: MultiwayRun) -> Used:
        def drain() -> int:
            assert ours.drain()["batches"] == 1
            rows = [row for row in read_rows(self.layout.queries(ours.query.name)) if row["side"] == -1]
            last = max(rows, key=lambda row: int(row["batch"]))
            return int(last["shuffled"] + last["collected"])

        return self._measured(drain)

    def _plain(self, batch: int) -> Used:
        for name in self.case.streams:
            tables.read(self.spark, self.layout.raw(name)).createOrReplaceTempView(name)

        def join() -> int:
            meter = Meter(self.spark)
            found = self.spark.sql(self.case.plain(batch))
            found.write.format("delta").mode("append").save(str(self._results))
            return meter.read().total

        if batch == 1:
            empty = self.spark.sql(self.case.plain(batch)).limit(0)
            empty.write.format("delta").save(str(self._results))
        for name, value in _BLOOM.items():
            self.spark.conf.set(name, value)
        try:
            return self._measured(join)
        finally:
            for name in _BLOOM:
                self.spark.conf.unset(name)

    def _measured(self, work: Any) -> Used:
        jvm: Any = self.spark._jvm
        jvm.System.gc()
        started, before = time.perf_counter(), cpu_s()
        moved = work()
        return Used(time.perf_counter() - started, cpu_s() - before, moved)

    def _compare(self, query: MultiwayQuery) -> None:
        shown = [output.name for output in query.outputs]
        ours, others = (
            tables.read(self.spark, table).select("event_us", *shown)
            for table in (self.layout.multiway(query.name), self._results)
        )
        here, there = ours.exceptAll(others).count(), others.exceptAll(ours).count()
        if here or there:
            raise ValueError(
                f"{self.case.name}: {here} results that plain Spark lacks, {there} that only it has"
            )

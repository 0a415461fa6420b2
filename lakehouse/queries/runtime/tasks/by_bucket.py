"""Buckets of a batch or repair, as one call of the engine: rows meet by bucket, and each bucket's kernel runs once.

    items     files of all inputs, and how many places there are
    read      rows of some files, each with its bucket                               in tasks
    kernel    buckets of a place, one after the other; their results are written     in tasks, with the bucket's state
    driver    entries of written parts, and metrics

A place is some buckets that one task runs: few for a large batch, all of them for a small one, which then writes one
part to each table.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.late_join.ranges import covering_ranges
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import SUNK, Parts, TableSink, entries_by_sink
from lakehouse.queries.runtime.batch_manifest import Scales
from lakehouse.queries.runtime.tables import Constants, with_constants
from lakehouse.queries.runtime.tasks.bucket import LOG, BucketResult, SegmentFiles
from lakehouse.queries.runtime.tasks.reading import NEWEST, SideRows, TaskRows, items_of
from lakehouse.storage.tables.table_commits import fitted

# A place has about so many rows, but not less than a bucket.
ROWS_A_PLACE = 62_500
_PLACE = "place"
# The times of rows that a bucket logs are kept as so many ranges.
_MOST_RANGES = 64
_RESULT = pa.schema([*SUNK, *((name, pa.string()) for name in ("metrics", "counts", "shared"))])
# The result of a bucket with rows; None for nothing.
Kernel = Callable[[int, pa.Table], "BucketResult | None"]
# A bucket's number, its rows, and its counters and markers -> its result.
Work = Callable[[int, pa.Table, pa.Table], BucketResult]


@dataclass(frozen=True)
class Output:
    """A table that buckets write: its name in their results, and constant columns."""

    name: str
    sink: TableSink
    constants: Constants

    def rows(self, bucket: int, rows: pa.Table) -> pa.Table:
        """Return rows of a bucket as the table has them."""
        own = self.constants if "bucket" in rows.column_names else {"bucket": bucket, **self.constants}
        return fitted(with_constants(rows, own), self.sink.columns)


@dataclass(frozen=True)
class Answered:
    """Results of buckets: entries and numbers of rows by output, metrics by bucket; ``shared``: rows of no bucket."""

    entries: Sequence[pa.Table]
    metrics: Sequence[dict[str, Any]]
    counts: Mapping[str, int]
    shared: Sequence[dict[str, Any]] = ()


def run_buckets(
    engine: Engine,
    step: str,
    inputs: Sequence[SideRows],
    buckets: int,
    kernel: "Kernel | BatchKernel",
    outputs: Sequence[Output],
) -> Answered:
    """Run the kernel of all buckets over the rows of some inputs; return what is to be committed."""
    files = [(number, *each) for number, own in enumerate(inputs) for each in own.files]
    places = min(buckets, 1 + sum(rows for _, _, rows in files) // ROWS_A_PLACE)
    own = tuple(each.rows for each in inputs)
    merged = pa.unify_schemas([each.schema for each in own], promote_options="permissive")
    columns = [each.with_nullable(True).remove_metadata() for each in (pa.field(_PLACE, pa.int32()), *merged)]
    schema = pa.schema(columns)
    found = engine.by_key(
        items_of(files),
        partial(_read, inputs=own, places=places, schema=schema),
        schema,
        _PLACE,
        partial(_answer, places=places, buckets=buckets, kernel=kernel, outputs=tuple(outputs)),
        _RESULT,
        step,
    )
    return _answered(found, len(outputs))


def log_figures(log: pa.Table) -> dict[str, Any]:
    """Return where a repair has to look for what rows of the log have missed, as metrics.

    ``missed_us``: the first and last of some ranges that contain their times; ``horizon_us``: the latest of theirs.
    """
    own = log.filter(pc.equal(log["what"], "missed"))
    event_us = own["event_us"].to_numpy()
    ranges = covering_ranges(event_us, event_us, _MOST_RANGES)
    return {"missed_us": [*chain(*ranges)], "horizon_us": pc.max(own["horizon_us"]).as_py()}


def joined_figures(figures: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of several parts of a log as those of one."""
    known = [each for each in figures if each["missed_us"]]
    first, last = np.array([*chain(*(each["missed_us"] for each in known))], np.int64).reshape(-1, 2).T
    horizons = [each["horizon_us"] for each in known if each["horizon_us"] is not None]
    ranges = covering_ranges(first, last, _MOST_RANGES)
    return {"missed_us": [*chain(*ranges)], "horizon_us": max(horizons, default=None)}


def _read(item: Item, *, inputs: Sequence[TaskRows], places: int, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of an item with their place; those without a bucket go to each, and one names each place once."""
    if item["is_first"]:
        yield fitted(pa.table({_PLACE: pa.array(range(places), pa.int32())}), schema)
    for number, own in groupby(zip(item["inputs"], item["paths"], strict=True), lambda each: each[0]):
        for batch in inputs[number].batches(path for _, path in own):
            rows, bucket = pa.Table.from_batches([batch]), batch.column("bucket")
            if bucket.null_count:
                place = np.repeat(np.arange(places, dtype=np.int32), len(rows))
                rows = pa.concat_tables([rows] * places)
            else:
                place = (bucket.to_numpy() % places).astype(np.int32)
            yield fitted(rows.append_column(_PLACE, pa.array(place)), schema)


def _answer(
    place: int,
    rows: pa.Table,
    *,
    places: int,
    buckets: int,
    kernel: "Kernel | BatchKernel",
    outputs: Sequence[Output],
) -> pa.Table:
    """Run the buckets of a place, and write what they answer."""
    own, shared = range(place, buckets, places), list[dict[str, Any]]()
    if isinstance(kernel, BatchKernel) and kernel.learn is not None:
        # The row that names the place has no value at all.
        without = rows.filter(pc.field("bucket").is_null() & pc.field("side").is_valid())
        shared = without.select(NEWEST.names).to_pylist()
        kernel = replace(kernel, work=kernel.learn(shared))
    has_state = isinstance(kernel, BatchKernel)
    answer, written = (
        kernel.of(own) if isinstance(kernel, BatchKernel) else kernel,
        _Answers(outputs),
    )
    for bucket, among in zip(own, _by_bucket(rows.drop_columns(_PLACE), own), strict=True):
        result = answer(bucket, among) if has_state or among.num_rows else None
        if result is not None:
            written.add(bucket, result)
    return written.result(shared if place == 0 else [])


def _by_bucket(rows: pa.Table, buckets: Sequence[int]) -> Iterator[pa.Table]:
    """Yield the rows of each bucket."""
    bucket = pc.fill_null(rows["bucket"], -1).to_numpy()
    order = np.argsort(bucket, kind="stable")
    firsts, lasts = (np.searchsorted(bucket[order], list(buckets), side) for side in ("left", "right"))
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        yield rows.take(pa.array(order[first:last])).combine_chunks()


class _Answers:
    """Results of the buckets of a task, in the parts that are written of them."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        self._outputs = outputs
        self._parts = Parts([each.sink for each in outputs])
        self._counts, self._told = Counter[str](), list[str]()

    def add(self, bucket: int, result: BucketResult) -> None:
        figures: Mapping[str, Any] = {}
        for number, output in enumerate(self._outputs):
            if output.name not in result.rows:
                continue
            rows = output.rows(bucket, result.rows[output.name])
            self._parts.add(number, rows)
            self._counts[output.name] += len(rows)
            figures = log_figures(rows) if output.name == LOG else figures
        if result.metrics:
            self._told.append(json.dumps({"bucket": bucket, **result.metrics, **figures}))

    def result(self, shared: Sequence[dict[str, Any]]) -> pa.Table:
        """Return entries by output, metrics of buckets, counts of rows, and rows that all places have."""
        told = pa.table({"metrics": pa.array(self._told, pa.string())})
        counts = pa.table({"counts": pa.array([json.dumps(self._counts)])})
        common = pa.table({"shared": pa.array([json.dumps(row) for row in shared], pa.string())})
        return pa.concat_tables(
            [fitted(each, _RESULT) for each in (self._parts.entries(), told, counts, common)]
        )


def _answered(found: pa.Table, outputs: int) -> Answered:
    counts = Counter[str]()
    for text in found["counts"].drop_null().to_pylist():
        counts.update(json.loads(text))
    metrics = [json.loads(text) for text in found["metrics"].drop_null().to_pylist()]
    shared = [json.loads(text) for text in found["shared"].drop_null().to_pylist()]
    entries, metrics = entries_by_sink(found, outputs), sorted(metrics, key=lambda row: row["bucket"])
    return Answered(entries, metrics, counts, shared)


@dataclass(frozen=True)
class BatchKernel:
    """The kernel of a batch's buckets, each of which goes on from the state that earlier batches left.

    ``files``: of the state. ``learn``: what ``work`` is once rows of inputs that have no bucket are known. Each place
    gets all of these, and they are returned, so there must be few: figures of files.
    """

    work: Work
    files: SegmentFiles
    scales: Scales
    learn: Callable[[Sequence[dict[str, Any]]], Work] | None = None

    def of(self, buckets: Sequence[int]) -> Kernel:
        """Return the kernel of some buckets, whose states are read together."""
        states = self.files.last(buckets, self.scales)

        def answer(bucket: int, rows: pa.Table) -> BucketResult | None:
            state = states[bucket]
            if not rows.num_rows and not state.num_rows:
                return None
            return self.work(bucket, rows, state)

        return answer

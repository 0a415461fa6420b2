"""Batch statistics: the counts, times and lateness of a batch that its ledger row holds.

They are of what was read. A manifest fixes which files are read, not what is in them. Where a process died between raw
and ledger, and a file was cut, replaced or removed before the batch was read again, what was read is not what is
stored. ``as_held`` counts what is stored, and makes the index of identities of that: rows that the index lacked would
be accepted twice when they come again.

Lateness across files is measured by tasks, each a range of arrival times. A task reads the times of all rows, as those
that arrived before its range are what its own rows are late behind. Rows without an arrival time are late behind
earlier ones of their file or partition, and in the first range.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from operator import add

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.ingest.lateness import NOTHING_LATE, Lateness, measure_arrived
from lakehouse.config.stream import Stream
from lakehouse.engine import Engine, Item, engine_of
from lakehouse.engine.parts import file_items
from lakehouse.ingest.batch_records import BatchRecords
from lakehouse.ingest.identities.stored_identities import index_stored
from lakehouse.ingest.part_counts import AcceptedCounts, Clocks, FileLateness, RecordCounts
from lakehouse.ingest.raw_rows import RawRows, raw_columns, raw_items, rows_of
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import files_between
from lakehouse.storage.tables.table_reads import pieces_of

log = logging.getLogger(__name__)
_TEXTS = pa.schema({"text": pa.string()})
_REASONS = pa.schema({"reason": pa.string(), "records": pa.int64()})
# A task sorts about so many rows, of 16 bytes.
ROWS_A_TASK = 4_000_000
_COLUMNS = pa.schema({"event_us": pa.int64(), "arrival_us": pa.int64(), "source_file": pa.string()})
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class BatchStats:
    """Counts of a batch's rows; times and missing values, by declared column, are those of accepted rows.

    ``reached``: as ``Reach`` says. ``clocks``: the earliest and the latest time of day of accepted rows, in
    microseconds after midnight. ``arrivals``: the first and the last arrival time.
    """

    rows: int
    records: int
    accepted: int
    duplicates: int
    reasons: dict[str, int]
    missing: dict[str, int]
    low: int | None
    high: int | None
    reached: int | None
    lateness: Lateness
    clocks: Clocks = None
    arrivals: Clocks = None
    filtered: int = 0

    @staticmethod
    def of(stream: Stream, read: RecordCounts, accepted: AcceptedCounts, duplicates: int = 0) -> BatchStats:
        """Return the statistics that counts of a batch's parts come to."""
        return BatchStats(
            *(read.rows, read.records, accepted.accepted, duplicates + read.read_before, read.reasons),
            missing=dict.fromkeys(stream.all_columns, 0) | accepted.missing,
            low=accepted.low,
            high=accepted.high,
            reached=accepted.reached_us(stream.step_us),
            lateness=accepted.lateness,
            clocks=accepted.clocks,
            arrivals=accepted.arrivals,
            filtered=read.filtered,
        )

    @property
    def is_balanced(self) -> bool:
        """True if every row is accounted for: one that was read twice may have been another by then."""
        return self.rows == self.accepted + sum(self.reasons.values()) + self.duplicates


def empty_stats(stream: Stream) -> BatchStats:
    """Return the statistics of a batch without rows."""
    return BatchStats.of(stream, RecordCounts(), AcceptedCounts())


def as_held(records: BatchRecords, read: BatchStats) -> BatchStats:
    """Return the statistics of a batch by its tables where they are not those of what was ``read`` of it last.

    Duplicates are those read last. Where a record is several rows, their number is an estimate. Cost: a few Spark
    jobs over the batch's files.
    """
    target, batch = records.tables, records.manifest.batch
    name = target.stream.name
    if target.stream.identity:
        index_stored(target, batch, batch)
    reasons = _rejected(records)
    held = BatchStats.of(target.stream, RecordCounts(reasons=reasons), _accepted(records), read.duplicates)
    counted = ("accepted", "missing", "low", "high", "reached", "clocks")
    is_same = all(getattr(held, each) == getattr(read, each) for each in counted)
    if is_same and reasons == dict(+Counter(read.reasons)) and read.is_balanced:
        return read
    log.warning(
        "stream %s, batch %d: its source is not what it was when it was read first; the ledger counts what raw and "
        "quarantine hold",
        *(name, batch),
    )
    rows = held.accepted + sum(reasons.values()) + read.duplicates
    return replace(
        held,
        rows=rows,
        records=max(0, read.records + rows - read.rows),
        filtered=read.filtered,
        lateness=lateness_of(records, held, files_between(target.layout.raw(name), ("batch", batch, batch))),
    )


def _accepted(records: BatchRecords) -> AcceptedCounts:
    """Return the counts of the batch's rows in raw, without their lateness."""
    stream, batch = records.tables.stream, records.manifest.batch
    raw = records.tables.layout.raw(stream.name)
    columns = raw_columns(raw, ("arrival_us", *stream.all_columns))
    items, step = raw_items(raw, RawRows(batch, batch)), f"count accepted rows of {stream.name}"
    kernel = partial(_counted, stream=stream, columns=columns)
    texts = engine_of(records.tables.spark).map(items, kernel, _TEXTS, step)["text"].to_pylist()
    return reduce(add, map(AcceptedCounts.of_text, texts), AcceptedCounts())


def _counted(item: Item, stream: Stream, columns: pa.Schema) -> Iterator[pa.Table]:
    counts = (AcceptedCounts.of(rows, stream) for rows in rows_of(item, columns))
    yield pa.table({"text": [reduce(add, counts, AcceptedCounts()).as_text()]}, _TEXTS)


def _rejected(records: BatchRecords) -> dict[str, int]:
    """Return how many records of the batch quarantine holds, by reason."""
    target, batch = records.tables, records.manifest.batch
    name = target.stream.name
    files = file_items(files_between(target.layout.quarantine(name), ("batch", batch, batch)))
    step, kernel = f"count rejected records of {name}", partial(_reasons_in, batch=batch)
    counts = engine_of(target.spark).map(files, kernel, _REASONS, step)
    rows = counts.group_by("reason").aggregate([("records", "sum")]).to_pylist()
    return {row["reason"]: row["records_sum"] for row in rows}


def _reasons_in(item: Item, batch: int) -> Iterator[pa.Table]:
    columns = pa.schema({"reason": pa.string(), "batch": pa.int64()})
    for rows in pieces_of(item["path"], columns):
        own = rows.filter(pc.equal(rows["batch"], batch))
        yield own.group_by("reason").aggregate([("batch", "count")]).rename_columns(_REASONS.names)


def is_by_arrival(records: BatchRecords) -> bool:
    """True if rows of a batch are late against others that tasks read elsewhere."""
    return records.manifest.kind == "kafka" or records.stream.arrival_time is not None


def lateness_of(records: BatchRecords, stats: BatchStats, parts: Sequence[Location]) -> Lateness:
    """Return the lateness of a batch by the parts of raw that it wrote, in order."""
    step = f"measure lateness of {records.stream.name}, batch {records.manifest.batch}"
    rows = stats.accepted, stats.arrivals
    return batch_lateness(engine_of(records.tables.spark), parts, records.before.newest_us, *rows, step)


def batch_lateness(
    engine: Engine,
    parts: Sequence[Location],
    newest_us: int | None,
    rows: int,
    arrivals: tuple[int, int] | None,
    step: str,
) -> Lateness:
    """Return the lateness of the rows in a batch's parts of raw, which are in order.

    ``newest_us``: the newest event time before the batch; ``arrivals``: about the first and the last arrival time.
    Cost: one Spark job, in which each of its tasks reads three columns; memory of a task: ``ROWS_A_TASK``.
    """
    tasks = 1 + rows // ROWS_A_TASK
    low, high = arrivals or (0, 0)
    cuts = sorted({low + (high + 1 - low) * number // tasks for number in range(1, tasks)})
    ranges = list(pairwise([_LEAST, *cuts, _MOST])) if rows else []
    items = pa.table({"low": [low for low, _ in ranges], "high": [high for _, high in ranges]})
    kernel = partial(_measured, parts=[str(path.absolute()) for path in parts], newest_us=newest_us)
    texts = engine.map(items, kernel, _TEXTS, step)["text"].to_pylist()
    late = (Lateness.of(json.loads(text)) for text in texts)
    return reduce(add, late, replace(NOTHING_LATE, newest_us=newest_us))


def _measured(item: Item, parts: Sequence[str], newest_us: int | None) -> Iterator[pa.Table]:
    low, files = item["low"], FileLateness(newest_us)
    reached = _LEAST if newest_us is None else newest_us
    held: list[npt.NDArray[np.int64]] = [np.empty((2, 0), np.int64)]
    for rows in (rows for path in parts for rows in pieces_of(path, _COLUMNS)):
        arrived = rows.filter(rows["arrival_us"].is_valid())
        times, arrivals = (arrived[name].to_numpy() for name in ("event_us", "arrival_us"))
        reached = int(times[arrivals < low].max(initial=reached))
        is_own = (arrivals >= low) & (arrivals < item["high"])
        held.append(np.stack([times[is_own], arrivals[is_own]]))
        if low == _LEAST:
            files.add(rows.filter(rows["arrival_us"].is_null()))
    times, arrivals = np.concatenate(held, axis=1)
    late = files.lateness + measure_arrived(times, arrivals, None if reached == _LEAST else reached)
    yield pa.table({"text": [json.dumps(asdict(late))]}, _TEXTS)

"""A registered query's tables -> small frames of deviations: per batch, per repair, and one of its periods.

Only what is finished is judged. Recall is audited over the time that is published, where nothing waits for a repair:
there it is known how many pairs there were to find.

Cost: one pass over three columns of the pairs and over the log; of raw, one count of the rows that no earlier check
passed. Guarantee: what leaves this module are batch numbers, counts and a share, never a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakehouse.algorithms.late_join.audit import Periods, periods_of_steps
from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.catalog.corrections import read_corrections
from lakehouse.catalog.plans import Plan, read_plans
from lakehouse.catalog.table_log import read_columns, read_log
from quality.metrics import Frame, read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.algorithms.late_join.contract import Bools, Int64s
    from lakehouse.catalog.layout import Home
    from lakehouse.catalog.queries import JoinQuery

COUNTS = ("rows", "pairs", "missed", "refused")
Figures = dict[str, Any]


@dataclass(frozen=True)
class Joined:
    """What a query's tables say of themselves, as of when they were opened: one row per repair, per batch and bucket.

    ``pairs`` counts by found, batch and step, ``log`` by what and batch; ``published_us`` is how far back recall is
    audited, None for everything.
    """

    layout: Home
    query: JoinQuery
    repairs: Sequence[Figures]
    figures: Sequence[Figures]
    pairs: pa.Table
    log: pa.Table
    published_us: int | None

    @property
    def through(self) -> int:
        """The query's last finished batch."""
        return int(max(row["batch"] for row in self.figures))

    @property
    def repaired_through(self) -> int:
        """The last batch whose log a repair has looked at, 0 for none."""
        return int(max((row["through"] for row in self.repairs), default=0))

    @property
    def gone(self) -> int:
        """Logged rows whose partners may lie where raw rows are no longer kept."""
        return sum(row["gone"] for row in self.repairs)


def open_joined(layout: Home, query: JoinQuery, published_us: int | None) -> Joined | None:
    """Return what a query's tables hold, None where no batch is finished."""
    # Repairs first: what they have looked at is then among the batches.
    repairs = _rows(layout.repairs(query.name), ("repair", "through", "found", "gone"))
    newest = ("left_newest_us", "right_newest_us")
    figures = _rows(layout.queries(query.name), ("batch", "bucket", *COUNTS, *newest))
    if not figures:
        return None
    pairs = _pairs(layout.joins(query.name), query.step_us)
    log = _counted(_scanned(layout.late(query.name), ("what", "batch")), ("what", "batch"))
    return Joined(layout, query, repairs, figures, pairs, log, published_us)


def measure_joined(joined: Joined, taken: Mapping[int, tuple[int, int]]) -> list[Frame]:
    """Return the frames of the batches in ``taken`` (least and most rows of each), of repairs, and of the periods."""
    batches, repairs = list(_batch_rows(joined, taken)), list(_repair_rows(joined))
    frames = [
        Frame("batches", ("batch",), batches),
        Frame("repairs", ("repair",), repairs),
        Frame("periods", (), [{"missed_share": missed_share(joined)}]),
    ]
    return [frame for frame in frames if frame.rows]


def rows_to_take(spark: SparkSession, joined: Joined, since: int) -> dict[int, tuple[int, int]]:
    """Return for each batch after ``since`` how many rows it had to take in, least and most.

    Rows that were taken in and have left raw since are not counted any more. What bands and distances use in several
    buckets they take in several times.
    """
    plans = read_plans(joined.layout.plans(joined.query.name), "batch")
    new = [plan for plan in plans if since < plan.number <= joined.through]
    counted = [_raw_counts(spark, joined, side, new) for side in (0, 1)] if new else []
    is_once = isinstance(joined.query.condition, Equality)
    return {plan.number: _to_take(plan, counted, is_once) for plan in new}


def missed_share(joined: Joined) -> float:
    """Return the share of periods below the recall asked for, of those with enough pairs in which nothing is open."""
    audited = _audited(joined)
    known = audited.is_scored & ~_is_open(joined, audited.start_us)
    missed = known & (audited.recall < joined.query.recall)
    return int(np.count_nonzero(missed)) / max(1, int(np.count_nonzero(known)))


def _batch_rows(joined: Joined, taken: Mapping[int, tuple[int, int]]) -> Iterator[Figures]:
    online = _by(joined.pairs, "found", "online")
    missed, refused = (_by(joined.log, "what", what) for what in ("missed", "refused"))
    for batch, (least, most) in sorted(taken.items()):
        rows = [row for row in joined.figures if row["batch"] == batch]
        told = {name: sum(row[name] for row in rows) for name in COUNTS}
        log_gap = abs(told["missed"] - missed[batch]) + abs(told["refused"] - refused[batch])
        yield {
            "batch": batch,
            "rows_missing": max(least - told["rows"], 0),
            "rows_added": max(told["rows"] - most, 0),
            "repeats": len(rows) - len({row["bucket"] for row in rows}),
            "pairs_gap": abs(told["pairs"] - online[batch]),
            "log_gap": log_gap,
        }


def _repair_rows(joined: Joined) -> Iterator[Figures]:
    found = _by(joined.pairs, "found", "repair")
    times = Counter(row["repair"] for row in joined.repairs)
    for row in joined.repairs:
        number = row["repair"]
        yield {
            "repair": number,
            "found_gap": abs(row["found"] - found[number]),
            "repeats": times[number] - 1,
        }


def _to_take(plan: Plan, counted: Sequence[Mapping[int, tuple[int, int]]], is_once: bool) -> tuple[int, int]:
    inside = [
        counts
        for (after, through), side in zip(plan.spans, counted, strict=True)
        for batch, counts in side.items()
        if after < batch <= through
    ]
    most = sum(kept + left for kept, left in inside) if is_once else 2**62
    return sum(kept for kept, _ in inside), most


def _raw_counts(
    spark: SparkSession, joined: Joined, side: int, plans: Sequence[Plan]
) -> dict[int, tuple[int, int]]:
    """Return per ingest batch how many rows of raw take part, and how many rows have left raw."""
    stream, where = joined.query.sides[side].stream, joined.query.sides[side].where
    after, through = plans[0].spans[side][0], plans[-1].spans[side][1]
    raw = read_table(spark, joined.layout.raw(stream)).where(f"batch > {after} AND batch <= {through}")
    kept = (raw.where(where) if where else raw).groupBy("batch").count().collect()
    left = Counter[int]()
    for correction in read_corrections(joined.layout, stream):
        left.update(correction.batches)
    counts = {row["batch"]: row["count"] for row in kept}
    return {
        batch: (counts.get(batch, 0), left[batch]) for batch in {*counts, *left} if after < batch <= through
    }


def _audited(joined: Joined) -> Periods:
    """Return the periods of finished batches and repairs, over the time that is published."""
    pairs, since = joined.pairs, _published_from(joined)
    online, batch = (pairs[name].to_numpy(zero_copy_only=False) for name in ("found", "batch"))
    is_online: Bools = online == "online"
    finished = np.where(is_online, joined.through, max((row["repair"] for row in joined.repairs), default=0))
    at, count = (pairs[name].to_numpy() for name in ("start_us", "count_all"))
    told = (batch <= finished) & (at >= since)
    steps, place = np.unique(at[told], return_inverse=True)
    whole, found = (
        np.bincount(place, weights=weights, minlength=len(steps)).astype(np.int64)
        for weights in (count[told], np.where(is_online, count, 0)[told])
    )
    query = joined.query
    return periods_of_steps(steps, whole, found, query.period_us, query.step_us)


def _published_from(joined: Joined) -> int:
    newest = [row[f"{side}_newest_us"] for row in joined.figures for side in ("left", "right")]
    known = [time for time in newest if time is not None]
    if not known or joined.published_us is None:
        return -(2**62)
    return floor_to(joined.query.step_us, max(known) - joined.published_us)


def _is_open(joined: Joined, start_us: Int64s) -> Bools:
    """Return which periods may still get pairs from logged rows that no repair has looked at."""
    waiting = (
        (ds.field("what") == "missed")
        & (ds.field("batch") > joined.repaired_through)
        & (ds.field("batch") <= joined.through)
    )
    batches = _scanned(joined.layout.late(joined.query.name), ("event_us", "horizon_us"), waiting)
    rows = pa.Table.from_batches(batches, pa.schema([("event_us", pa.int64()), ("horizon_us", pa.int64())]))
    event, horizon = (rows[name].to_numpy() for name in ("event_us", "horizon_us"))
    # A missing pair is with a row of at most the horizon, and belongs to the newer of both.
    last = np.maximum(event, np.minimum(event + joined.query.window_us, horizon))
    begun = np.searchsorted(np.sort(event), start_us + joined.query.period_us)
    ended = np.searchsorted(np.sort(last), start_us)
    is_open: Bools = begun > ended
    return is_open


def _pairs(table: Path, step_us: int) -> pa.Table:
    """Count pairs by how and when they were found, and by step of event time."""

    def placed(batch: pa.RecordBatch) -> pa.RecordBatch:
        start = batch["event_us"].to_numpy() // step_us * step_us
        return pa.record_batch(
            [batch["found"], batch["batch"], pa.array(start)], ["found", "batch", "start_us"]
        )

    scanned = (placed(batch) for batch in _scanned(table, ("found", "batch", "event_us")))
    return _counted(scanned, ("found", "batch", "start_us"))


def _counted(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> pa.Table:
    """Count rows by the values of these columns, the first of them text and the others numbers."""
    none = pa.schema([(name, pa.int64() if place else pa.string()) for place, name in enumerate(names)])
    counts = [pa.Table.from_batches([], none.append(pa.field("count_all", pa.int64())))]
    for batch in batches:
        rows = pa.Table.from_batches([batch]).cast(none)
        counts.append(rows.group_by(list(names)).aggregate([([], "count_all")]))
    total = pa.concat_tables(counts).group_by(list(names)).aggregate([("count_all", "sum")])
    return total.rename_columns([*names, "count_all"])


def _scanned(
    table: Path, columns: Sequence[str], kept: ds.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    log = read_log(table)
    if log and log.files:
        files = ds.dataset([str(path) for path in log.files], format="parquet")
        yield from files.to_batches(columns=list(columns), filter=kept)


def _by(counts: pa.Table, column: str, value: str) -> Counter[int]:
    """Return the counts of each batch, of those with this value."""
    rows = counts.filter(pc.equal(counts[column], value)).select(["batch", "count_all"])
    found = Counter[int]()
    for batch, count in zip(rows["batch"].to_pylist(), rows["count_all"].to_pylist(), strict=True):
        found[batch] += count
    return found


def _rows(table: Path, names: Sequence[str]) -> list[Figures]:
    return [dict(zip(names, row, strict=True)) for row in read_columns(table, names)]

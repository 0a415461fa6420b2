"""A registered join's tables -> small frames of deviations: per batch, per repair, and one of its periods.

Recall is audited over the time that is published, where nothing waits for a repair: there it is known how many pairs
there were to find. Cost: one pass over three columns of the pairs and over the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from lakehouse.algorithms.late_join.audit import Periods, Waiting, periods_of_steps
from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.queries.runtime.batch_metrics import read_figures
from lakehouse.queries.runtime.checks import COUNTS, QueryTables, Taken, counted, query_frames, scanned
from lakehouse.spark.deviations import Frame

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Bools
    from lakehouse.home.layout import Home
    from lakehouse.queries.pairs.query import PairsQuery

_NEWEST = ("left_newest_us", "right_newest_us")


@dataclass(frozen=True)
class Joined(QueryTables):
    """A join's tables; ``found`` counts pairs by step of event time too, of which ``published_us`` back are audited."""

    query: PairsQuery
    published_us: int | None

    @property
    def is_once(self) -> bool:
        """Whether each row is taken in once; bands and distances use a row in several buckets."""
        return isinstance(self.query.condition, Equality)


def open_joined(layout: Home, query: PairsQuery, published_us: int | None) -> Joined | None:
    """Return what a query's tables hold, None where no batch is finished; ``published_us``: None for everything."""
    figures = read_figures(layout, query.name, ("batch", "bucket", *COUNTS, "pairs", *_NEWEST))
    if not figures.finished:
        return None
    pairs = _pairs(layout.joins(query.name), query.step_us)
    log = counted(scanned(layout.late(query.name), ("what", "batch")), ("what", "batch"))
    return Joined(layout, query, figures, pairs, log, ("pairs",), published_us)


def measure_joined(joined: Joined, taken: Taken) -> list[Frame]:
    """Return the frames of the batches in ``taken`` (least and most rows of each), of repairs, and of the periods."""
    periods = Frame("periods", (), [{"missed_share": missed_share(joined)}])
    return [frame for frame in (*query_frames(joined, taken), periods) if frame.rows]


def missed_share(joined: Joined) -> float:
    """Return the share of periods below the recall asked for, of those with enough pairs in which nothing is open."""
    audited = _audited(joined)
    open_rows = _waiting(joined).inside(audited.start_us, joined.query.period_us)
    known = audited.is_scored & (open_rows == 0)
    missed = known & (audited.recall < joined.query.recall)
    return int(np.count_nonzero(missed)) / max(1, int(np.count_nonzero(known)))


def _audited(joined: Joined) -> Periods:
    """Return the periods of finished batches and repairs, over the time that is published."""
    pairs, since = joined.found, _published_from(joined)
    online, batch = (pairs[name].to_numpy(zero_copy_only=False) for name in ("found", "batch"))
    is_online: Bools = online == "online"
    finished = np.where(is_online, joined.through, joined.figures.last_repair)
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
    newest = [row[name] for row in joined.figures.rows for name in _NEWEST]
    known = [time for time in newest if time is not None]
    if not known or joined.published_us is None:
        return -(2**62)
    return floor_to(joined.query.step_us, max(known) - joined.published_us)


def _waiting(joined: Joined) -> Waiting:
    """Return the logged rows that no repair has looked at."""
    waiting = (
        (ds.field("what") == "missed")
        & (ds.field("batch") > joined.figures.repaired)
        & (ds.field("batch") <= joined.through)
    )
    batches = scanned(joined.layout.late(joined.query.name), ("event_us", "horizon_us"), waiting)
    rows = pa.Table.from_batches(batches, pa.schema([("event_us", pa.int64()), ("horizon_us", pa.int64())]))
    event, horizon = (rows[name].to_numpy() for name in ("event_us", "horizon_us"))
    return Waiting.of(event, horizon, joined.query.window_us)


def _pairs(table: Path, step_us: int) -> pa.Table:
    """Count pairs by how and when they were found, and by step of event time."""

    def placed(batch: pa.RecordBatch) -> pa.RecordBatch:
        start = batch["event_us"].to_numpy() // step_us * step_us
        return pa.record_batch(
            [batch["found"], batch["batch"], pa.array(start)], ["found", "batch", "start_us"]
        )

    rows = (placed(batch) for batch in scanned(table, ("found", "batch", "event_us")))
    return counted(rows, ("found", "batch", "start_us"))

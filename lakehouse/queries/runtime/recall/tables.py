"""The tables of a join with a recall, and the frame of its periods for rules.

Recall is audited over the time that is published, where nothing waits for a repair: there it is known how many pairs
there were to find. Cost: one pass of tasks over three columns of the results and over the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join.audit import Periods, Waiting, periods_of_steps
from lakehouse.algorithms.late_join.contract import Bools, Int64s
from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import file_items
from lakehouse.queries.kind import Query, kind_of
from lakehouse.queries.runtime.checks import QueryTables
from lakehouse.queries.runtime.recall.reported_misses import ReportedMisses
from lakehouse.queries.runtime.tables import missed_in
from lakehouse.spark.deviations import Frame
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import files_between

_LOGGED = ("batch", "event_us", "horizon_us")
_STEPS = pa.schema({"first_us": pa.int64(), "last_us": pa.int64()})


@dataclass(frozen=True)
class RecallTables(QueryTables):
    """A query's tables; ``found`` counts results by step of event time too, of which ``published_us`` back are audited.

    A query that states no recall has no periods.
    """

    query: Any

    @staticmethod
    def step_us(query: Any) -> int | None:
        """Return by which steps ``found`` counts results, None if not by any."""
        return None if getattr(query, "recall", None) is None else int(query.step_us)

    def own_frames(self) -> Sequence[Frame]:
        """Return the frame of periods: their share of misses counts as long as one of them is not reported yet."""
        if not self._has_periods:
            return []
        missed, share = self._misses
        is_new = not bool(self._reported.contain(missed).all())
        shares = {"missed_share": share if is_new else 0.0, "reported_share": 0.0 if is_new else share}
        return [Frame("periods", (), [shares])]

    def report_misses(self) -> dict[str, Any]:
        """Note the misses as reported; return how many there are and when the first was reported, nothing of none."""
        if not self._has_periods:
            return {}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        reported = self._reported.with_more(self._misses[0], self.query.step_us, now)
        reported.write(self.layout.reported_misses(self.query.name))
        if not reported.at:
            return {}
        return {"missed_periods": len(self._misses[0]), "missed_since": min(reported.at)}

    def by_step(self) -> pa.Table:
        """Return results of finished batches and repairs by ``start_us``: the ``whole``, and those found ``online``."""
        online, batch = (self.found[name].to_numpy(zero_copy_only=False) for name in ("found", "batch"))
        is_online: Bools = online == "online"
        rows = self.found.filter(
            pa.array(batch <= np.where(is_online, self.through, self.metrics.last_repair))
        )
        is_online = rows["found"].to_numpy(zero_copy_only=False) == "online"
        whole = rows["count_all"].to_numpy()
        return pa.table(
            {"start_us": rows["start_us"], "whole": whole, "online": np.where(is_online, whole, 0)}
        )

    @property
    def _has_periods(self) -> bool:
        return getattr(self.query, "recall", None) is not None

    @cached_property
    def _misses(self) -> tuple[Int64s, float]:
        return missed_periods(self)

    @cached_property
    def _reported(self) -> ReportedMisses:
        return ReportedMisses.read(self.layout.reported_misses(self.query.name))


def open_tables(
    engine: Engine, layout: Home, query: Query, since: int, published_us: int | None
) -> QueryTables | None:
    """Return the contents of a query's tables by its kind, None if no batch is finished."""
    of_kind: type[QueryTables] = kind_of(query).part("tables", "tables_of", RecallTables)
    return of_kind.opened(engine, layout, query, since, published_us)


def missed_periods(tables: RecallTables) -> tuple[Int64s, float]:
    """Return the starts of periods below the recall asked for, and their share.

    Periods count that have enough pairs and in which nothing is open.
    """
    audited = _audited(tables)
    open_rows = _waiting(tables).inside(audited.start_us, tables.query.period_us)
    known = audited.is_scored & (open_rows == 0)
    missed = known & (audited.recall < tables.query.recall)
    starts = audited.start_us[missed]
    return starts, len(starts) / max(1, int(np.count_nonzero(known)))


def _audited(tables: RecallTables) -> Periods:
    """Return the periods of finished batches and repairs, over the time that is published."""
    pairs, since = tables.by_step(), _published_from(tables)
    at = pairs["start_us"].to_numpy()
    is_shown = at >= since
    steps, place = np.unique(at[is_shown], return_inverse=True)
    whole, found = (
        np.bincount(place, weights=pairs[name].to_numpy()[is_shown], minlength=len(steps)).astype(np.int64)
        for name in ("whole", "online")
    )
    query = tables.query
    return periods_of_steps(steps, whole, found, query.period_us, query.step_us)


def _published_from(tables: RecallTables) -> int:
    newest = [row[name] for row in tables.metrics.rows for name in kind_of(tables.query).newest]
    known = [time for time in newest if time is not None]
    if not known or tables.published_us is None:
        return -(2**62)
    return floor_to(tables.query.step_us, max(known) - tables.published_us)


def _waiting(tables: RecallTables) -> Waiting:
    """Return the first and last steps of logged rows that no repair has looked at, each pair of them once.

    Periods begin and end with steps, so this says of each whether it is open. Cost: one Spark job over their log.
    """
    query, batches = tables.query, (tables.metrics.repaired, tables.through)
    files = files_between(tables.layout.missed_rows(query.name), ("batch", batches[0] + 1, batches[1]))
    kernel = partial(_open_steps, batches=batches, window_us=query.window_us, step_us=query.step_us)
    steps = tables.engine.map(file_items(files), kernel, _STEPS, f"open steps of {query.name}")
    return Waiting(*(steps[name].to_numpy() for name in _STEPS.names))


def _open_steps(item: Item, *, batches: tuple[int, int], window_us: int, step_us: int) -> Iterator[pa.Table]:
    columns = pa.schema([("what", pa.string()), *((name, pa.int64()) for name in _LOGGED)])
    for own in missed_in(item["path"], columns, batches):
        event_us, horizon_us = (own[name].to_numpy() for name in _LOGGED[1:])
        waiting = Waiting.of(event_us, horizon_us, window_us)
        steps = [pa.array(ends // step_us * step_us) for ends in (waiting.first_us, waiting.last_us)]
        yield pa.table(steps, schema=_STEPS).group_by(_STEPS.names).aggregate([]).cast(_STEPS)

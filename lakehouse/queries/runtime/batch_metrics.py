"""The small tables ``queries`` and ``repairs`` of a registered query: what is finished, and its metrics.

Only finished batches and repairs count: until its metrics exist, the rows that a batch or repair has appended belong
to one that is running or died. Cost: one row per batch and bucket, or side.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lakehouse.queries.kind import Query, kind_of
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import read_columns

Facts = dict[str, Any]
REPAIRS = (
    *("repair", "through", "looked_at", "found", "gone", "time_us", "committed_at"),
    *("withdrawn", "withdrawn_from", "stream", "correction", "by", "why"),
)


@dataclass(frozen=True)
class BatchMetrics:
    """``rows``: one per finished batch and bucket or side, in order, -1 first; ``repairs``: one per finished repair."""

    rows: Sequence[Facts]
    repairs: Sequence[Facts]

    @property
    def finished(self) -> int:
        """The last finished batch, 0 for none."""
        return int(self.rows[-1]["batch"]) if self.rows else 0

    @property
    def last_repair(self) -> int:
        """The number of the last finished repair, 0 for none."""
        return int(self.repairs[-1]["repair"]) if self.repairs else 0

    @property
    def repaired(self) -> int:
        """The last batch that is repaired."""
        return max((repair["through"] for repair in self.repairs), default=0)

    @cached_property
    def last_batch(self) -> list[Facts]:
        """The rows of the last finished batch."""
        return [row for row in self.rows if row["batch"] == self.finished]

    def total(self, name: str, after: int = 0) -> int:
        """Return the sum of a metric over all finished batches after one; 0 if a kind has no such metric."""
        return sum(row.get(name) or 0 for row in self.rows if row["batch"] > after)

    def total_repaired(self, name: str) -> int:
        """Return the sum of a metric over all repairs."""
        return sum(repair[name] or 0 for repair in self.repairs)

    def standing(self, name: str) -> int:
        """Return how many results of batches, by the metric that counts them, were not withdrawn."""
        return self.total(name) - self.withdrawn("online").total()

    @property
    def standing_repaired(self) -> int:
        """The number of results of repairs that were not withdrawn."""
        return self.total_repaired("found") - self.withdrawn("repair").total()

    def withdrawn(self, found: str) -> Counter[int]:
        """Return how many results were withdrawn that ``online`` batches or ``repair``s had found, by their number."""
        counts = Counter[int]()
        for repair in self.repairs:
            for source, results in repair["withdrawn_from"].items():
                how, number = source.split()
                counts[int(number)] += results if how == found else 0
        return counts


def read_batch_metrics(layout: Home, query: str, names: Sequence[str]) -> BatchMetrics:
    """Return these columns of ``queries``, the first two being batch and bucket or side, and the repairs."""
    return _read(layout, query, names, names[:2], (0, 0))


def read_metrics_after(
    layout: Home, query: str, names: Sequence[str], batch: int, repair: int
) -> BatchMetrics:
    """Return these columns of ``queries``, batch first, and the repairs, where the number is greater than those given.

    Files that statistics exclude are not opened. Within a batch rows are in no order.
    """
    return _read(layout, query, names, names[:1], (batch, repair))


def read_log_metrics(layout: Home, query: Query, after: int, through: int) -> list[Facts]:
    """Return what batches after one and through another logged, by bucket or side; the others are 0 or null."""
    names = ("batch", "bucket", "missed", "missed_us", "horizon_us")
    columns = [kind_of(query).partition if name == "bucket" else name for name in names]
    rows = read_columns(layout.queries(query.name), columns, ("batch", after + 1, through))
    return [dict(zip(names, row, strict=True)) for row in rows]


def withdrawn_for(layout: Home, query: str, stream: str) -> dict[int, int]:
    """Return by correction of a stream how many results of a query were withdrawn because of it, or recomputed."""
    found = read_columns(layout.repairs(query), ("stream", "correction", "withdrawn"))
    return {correction: results for name, correction, results in found if name == stream}


def is_finished(batches: int, repairs: int) -> str:
    """Return SQL that says whether a row of pairs, answers or alarms is of a finished batch or repair."""
    return f"(found = 'online' AND batch <= {batches} OR found = 'repair' AND batch <= {repairs})"


def is_open(repaired: int, batches: int) -> str:
    """Return SQL that says whether a logged row of these batches has not been processed by a repair yet."""
    return f"(what = 'missed' AND batch > {repaired} AND batch <= {batches})"


def _read(
    layout: Home, query: str, names: Sequence[str], order: Sequence[str], after: tuple[int, int]
) -> BatchMetrics:
    # In this order, so that the batches include all that a repair has processed.
    repairs = _rows(layout.repairs(query), REPAIRS, ("repair",), after[1])
    repairs = [{**row, "withdrawn_from": dict(row["withdrawn_from"] or ())} for row in repairs]
    return BatchMetrics(_rows(layout.queries(query), names, order, after[0]), repairs)


def _rows(table: Location, names: Sequence[str], order: Sequence[str], after: int) -> list[Facts]:
    """Return the rows whose number, the first column, is greater than this; numbers begin with 1."""
    found = read_columns(table, names, (names[0], after + 1, None) if after else None)
    rows = [dict(zip(names, row, strict=True)) for row in found]
    return sorted(rows, key=lambda row: tuple(row[name] for name in order))

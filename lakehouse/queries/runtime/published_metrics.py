"""The published metrics of a query: sums over its finished batches and repairs, and the times that they reached.

They are in the query's row of a version, and the next version adds what has finished since. Cost: one row per batch
and bucket, or side, and one per repair, of those that are new; and a read of the logs of both tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakehouse.declare.stream import instant_us
from lakehouse.home.layout import Home
from lakehouse.home.table_log import bounds, table_id
from lakehouse.queries.runtime.batch_metrics import BatchMetrics, Facts, read_metrics_after

_SUMS = {name: name for name in ("rows", "missed", "refused", "unusable")}
# The values of a query before anything is finished, besides its sums.
_NOTHING: Facts = {
    **{"batches": 0, "time_us": None, "newest_us": None},
    **{"repairs": 0, "repaired_through": 0, "repaired_us": None, "repaired": 0, "gone": 0},
}


@dataclass(frozen=True)
class KindsMetrics:
    """The metrics that a kind of query publishes in addition to those of all kinds.

    ``sums``: metrics that add up, by their published columns. ``newest``: those with event times, or lists of them.
    """

    sums: Mapping[str, str]
    newest: Sequence[str]

    @property
    def all_sums(self) -> Mapping[str, str]:
        """All metrics that add up, including those that every kind publishes; one that a kind lacks is 0."""
        return {**_SUMS, **self.sums}

    @property
    def nothing(self) -> Facts:
        """The published values before anything is finished."""
        return _NOTHING | dict.fromkeys(self.all_sums, 0)


def read_published_metrics(
    layout: Home, query: str, kinds: KindsMetrics, before: Facts | None = None
) -> Facts:
    """Return the columns of ``queries`` that follow from metrics, and the table that these are in.

    ``before``: the row of the query in the version before; None to read all. It is ignored if it is of another table
    (as after the query's meaning changed), lacks columns, or counts batches that the tables lack.
    """
    metrics_are_in = table_id(layout.queries(query))
    if before is None or not _goes_on(layout, query, before, kinds.nothing | {"table_id": metrics_are_in}):
        before = kinds.nothing
    names = ("batch", *dict.fromkeys((*kinds.all_sums.values(), "time_us", *kinds.newest)))
    new = read_metrics_after(layout, query, names, before["batches"], before["repairs"])
    return {**folded(before, new, kinds), "table_id": metrics_are_in}


def folded(before: Facts, new: BatchMetrics, kinds: KindsMetrics) -> Facts:
    """Return the published values after more finished batches and repairs; any division into parts gives the same."""
    newest = (time for row in new.rows for name in kinds.newest for time in _times(row[name]))
    committed = new.repairs[-1]["committed_at"] if new.repairs else None
    return {
        "batches": new.finished or before["batches"],
        **{column: before[column] + new.total(name) for column, name in kinds.all_sums.items()},
        "time_us": greatest([before["time_us"], *(row["time_us"] for row in new.rows)]),
        "newest_us": greatest([before["newest_us"], *newest]),
        "repairs": new.last_repair or before["repairs"],
        "repaired_through": max(before["repaired_through"], new.repaired),
        "repaired_us": before["repaired_us"] if committed is None else instant_us(committed),
        "repaired": before["repaired"] + new.total_repaired("found"),
        "gone": before["gone"] + new.total_repaired("gone"),
    }


def greatest(times: Iterable[int | None]) -> int | None:
    """Return the latest of some times, None where there is none."""
    return max((time for time in times if time is not None), default=None)


def _times(value: int | list[int | None] | None) -> list[int | None]:
    return value if isinstance(value, list) else [value]


def _goes_on(layout: Home, query: str, before: Facts, needed: Facts) -> bool:
    """Return whether a version's values are complete and of these tables, and the tables have all that they count."""
    if not before.keys() >= needed.keys() or before["table_id"] != needed["table_id"]:
        return False
    ends = ((layout.queries(query), "batch", "batches"), (layout.repairs(query), "repair", "repairs"))
    return all((bounds(table, (name,))[0][1] or 0) >= before[counted] for table, name, counted in ends)

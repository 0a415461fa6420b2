"""What is published of a query's metrics: sums over its finished batches and repairs, and the times that they reached.

They stand in the row of the query in a version, and the next version adds what was finished since. Cost: one row per
batch and bucket, or side, and one per repair, of those; and a look at the logs of both tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakehouse.declare.stream import instant_us
from lakehouse.home.layout import Home
from lakehouse.home.table_log import bounds, read_columns, table_id
from lakehouse.queries.runtime.batch_metrics import REPAIRS, Facts

_SUMS = {name: name for name in ("rows", "missed", "refused", "unusable")}
# What a query has before anything is finished, beside its sums.
_NOTHING: Facts = {
    **{"batches": 0, "time_us": None, "newest_us": None},
    **{"repairs": 0, "repaired_through": 0, "repaired_us": None, "repaired": 0, "gone": 0},
}


@dataclass(frozen=True)
class KindsMetrics:
    """What a kind of query publishes of its metrics beside what all do.

    ``sums``: metrics that add up, by their published columns. ``newest``: those with event times, or lists of them.
    """

    sums: Mapping[str, str]
    newest: Sequence[str]

    @property
    def all_sums(self) -> Mapping[str, str]:
        """Metrics that add up, those that all kinds publish among them; one that a kind has not is 0."""
        return {**_SUMS, **self.sums}

    @property
    def nothing(self) -> Facts:
        """What is published before anything is finished."""
        return _NOTHING | dict.fromkeys(self.all_sums, 0)


def read_published_metrics(
    layout: Home, query: str, kinds: KindsMetrics, before: Facts | None = None
) -> Facts:
    """Return the columns of ``queries`` that follow from metrics, and which table these lie in.

    ``before``: the row of the query in the version before; None to read all. It is passed over where it is of another
    table, as after the query's meaning changed, has not all columns, or counts batches that the tables lack.
    """
    metrics_are_in = table_id(layout.queries(query))
    if before is None or not _goes_on(layout, query, before, kinds.nothing | {"table_id": metrics_are_in}):
        before = kinds.nothing
    names = ("batch", *dict.fromkeys((*kinds.all_sums.values(), "time_us", *kinds.newest)))
    # In this order: what a repair has looked at is then among the batches.
    repairs = _rows_after(layout.repairs(query), REPAIRS, before["repairs"])
    rows = _rows_after(layout.queries(query), names, before["batches"])
    return {**folded(before, rows, repairs, kinds), "table_id": metrics_are_in}


def folded(before: Facts, rows: Sequence[Facts], repairs: Sequence[Facts], kinds: KindsMetrics) -> Facts:
    """Return what is published after more finished batches and repairs; in any parts, it is that of all at once."""
    last = max(repairs, key=lambda repair: repair["repair"], default=None)
    newest = (time for row in rows for name in kinds.newest for time in _times(row[name]))
    return {
        "batches": max((row["batch"] for row in rows), default=before["batches"]),
        **{
            column: before[column] + sum(row[name] or 0 for row in rows)
            for column, name in kinds.all_sums.items()
        },
        "time_us": greatest([before["time_us"], *(row["time_us"] for row in rows)]),
        "newest_us": greatest([before["newest_us"], *newest]),
        "repairs": before["repairs"] if last is None else last["repair"],
        "repaired_through": max(
            (repair["through"] for repair in repairs), default=before["repaired_through"]
        ),
        "repaired_us": before["repaired_us"] if last is None else instant_us(last["committed_at"]),
        "repaired": before["repaired"] + sum(repair["found"] for repair in repairs),
        "gone": before["gone"] + sum(repair["gone"] for repair in repairs),
    }


def greatest(times: Iterable[int | None]) -> int | None:
    """Return the latest of some times, None where there is none."""
    return max((time for time in times if time is not None), default=None)


def _times(value: int | list[int | None] | None) -> list[int | None]:
    return value if isinstance(value, list) else [value]


def _goes_on(layout: Home, query: str, before: Facts, needed: Facts) -> bool:
    """Return whether what a version has is complete and of these tables, and they have all that it counts."""
    if not before.keys() >= needed.keys() or before["table_id"] != needed["table_id"]:
        return False
    ends = ((layout.queries(query), "batch", "batches"), (layout.repairs(query), "repair", "repairs"))
    return all((bounds(table, (name,))[0][1] or 0) >= before[counted] for table, name, counted in ends)


def _rows_after(table: Path, names: Sequence[str], number: int) -> list[Facts]:
    """Return the rows with a number, their first column, that is greater."""
    found = read_columns(table, names, (names[0], number + 1, None))
    return [dict(zip(names, row, strict=True)) for row in found]

"""The part of a query's explanation that all kinds share: its meaning, its last batches, what waits for repair.

Reads the query's tables as they are now, not a published version; starts no JVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from lakehouse.declare.stream import Stream
from lakehouse.queries.kind import Side, kind_of, where_of
from lakehouse.queries.runtime.batch_manifest import Scale, read_manifest
from lakehouse.queries.runtime.batch_metrics import is_open
from lakehouse.queries.runtime.operators import conditions_of
from lakehouse.queries.runtime.state import Facts, QueryState, newest_time
from lakehouse.serving.literals import parquet_of
from lakehouse.serving.table_reader import connected

LAST = 10


@dataclass(frozen=True)
class Declared:
    """The part of the configuration that an explanation needs: all streams, costs of sites, the published time."""

    streams: Mapping[str, Stream]
    site_costs: Mapping[str, Mapping[str, float]]
    published_us: int | None


def explain(state: QueryState, declared: Declared) -> Facts:
    """Return everything known about a query, as plain values; times in microseconds, None for no time yet."""
    own: Facts = kind_of(state.query).file("explain").explain(state, declared)
    return {
        **state.summary(),
        "text": state.query.text,
        "meant_before": state.meant,
        "means": state.means,
        **own,
        **_scans(state),
    }


def last(batches: Iterable[Facts]) -> list[Facts]:
    """Return the last of all batches."""
    return list(batches)[-LAST:]


def batch_sums(state: QueryState, names: Sequence[str]) -> Iterator[tuple[list[Facts], Facts]]:
    """Yield the rows of each finished batch with sums over them, when it ended, and its newest stream time."""
    for number, of_batch in groupby(state.metrics.rows, key=lambda row: row["batch"]):
        rows = list(of_batch)
        yield (
            rows,
            {
                "batch": number,
                "committed_at": rows[0]["committed_at"],
                **{name: sum(row[name] or 0 for row in rows) for name in names},
                "time_us": newest_time(rows),
            },
        )


def bucket_sums(state: QueryState, names: Sequence[str]) -> Iterator[tuple[Facts, bool, Facts]]:
    """Yield each bucket's last row, whether it is of the last batch, and sums over its rows of this scale."""
    since = state.scale.since if state.scale else 1
    rows = [row for row in state.metrics.rows if row["batch"] >= since]
    for bucket in sorted({row["bucket"] for row in rows} - {-1}):
        own = [row for row in rows if row["bucket"] == bucket]
        is_now = own[-1]["batch"] == state.metrics.finished
        yield own[-1], is_now, {name: sum(row[name] for row in own) for name in names}


def number_in_words(scale: Scale | None) -> str:
    """Return the number of buckets, and since when if it has changed."""
    if scale is None:
        return "none yet"
    return f"{scale.buckets}" + (f" since batch {scale.since}" if scale.since > 1 else "")


def conditions_on(side: Side) -> Facts:
    """Return the conditions of WHERE on a side; if one of them calls a predicate, also each by itself."""
    asked = {"conditions": conditions_of(side.conjuncts)} if side.conjuncts else {}
    return {"where": where_of(side), **asked}


def repairs_of(state: QueryState) -> Facts:
    """Return what waits for the repair, and the results of the last repairs."""
    return {"to_repair": _to_repair(state), "last_repairs": state.metrics.repairs[-LAST:]}


def _scans(state: QueryState) -> Facts:
    """Return the reason for the order of conditions on sides, and the last scans; nothing if none calls a predicate."""
    if state.scans is None:
        return {}
    return {"why": list(state.scans.why()), "last_scans": last(state.scans.batches())}


def _to_repair(state: QueryState) -> Facts:
    """Return how many logged rows wait for a repair, their batches and times, and whether a repair was begun."""
    metrics = state.metrics
    begun = read_manifest(state.layout.batch_manifests(state.query.name), "repair", metrics.last_repair + 1)
    rows = metrics.total("missed", after=metrics.repaired)
    times: tuple[int | None, int | None] | None = None
    late = parquet_of(state.layout.missed_rows(state.query.name))
    if rows and late:
        waiting = is_open(metrics.repaired, metrics.finished)
        with connected() as connection:
            found = connection.execute(f"SELECT min(event_us), max(event_us) FROM {late} WHERE {waiting}")
            times = found.fetchone()
    oldest_us, newest_us = times or (None, None)
    batches = [metrics.repaired + 1, metrics.finished] if metrics.finished > metrics.repaired else None
    return {
        "rows": rows,
        "oldest_us": oldest_us,
        "newest_us": newest_us,
        "batches": batches,
        "begun": begun is not None,
    }
